// The lessons: eight cards in each language. `fields` are those of a link (see view.js), `show`
// is the section that the card is about, and `chapter` that of the walkthrough.

const LESSON_VIEWS = [
  { fields: { w: 0, k: "cross", h: "mean", s: "" }, show: "stage", chapter: "01-text" },
  { fields: { w: 1, k: "encoder", l: 0, h: "mean", s: "first" }, show: "stage", chapter: "04-attention" },
  { fields: { w: 1, k: "cross", h: "mean", s: 3 }, show: "stage", chapter: "06-model" },
  { fields: { w: 1, k: "cross", h: "mean", s: 3 }, show: "stage", chapter: "06-model" },
  { fields: { w: 1, k: "cross", h: "mean", s: 4, x: 1 }, show: "stage", chapter: "08-search" },
  { fields: { w: 1, k: "cross", h: "mean", s: 3 }, show: "without", chapter: "04-attention" },
  { fields: { w: 1, k: "cross", s: 3, b: "inside" }, show: "why", chapter: "04-attention" },
  { fields: { w: 1, k: "cross", s: 3, b: "switch-off" }, show: "why", chapter: "04-attention" },
];

// {beam}: how many hypotheses the search keeps.
const LESSONS = {
  en: {
    lesson: "Lesson {n} of {count}", previous: "Previous lesson", next: "Next lesson", close: "Close the lessons", more: "More: chapter {chapter} of the walkthrough", walkthrough: "en",
    cards: [
      { title: "Words become pieces", text: "The model knows a fixed list of pieces. A frequent word is one piece; a rare one is put together from several. ▁ is the space before a word. The end of the sentence is a piece, too.", question: "Which word of this sentence has the most pieces? Type a rare name: what becomes of it?" },
      { title: "Every word attends to every word", text: "Before the first word is chosen, the encoder reads the whole source, layer by layer. In each layer, each word takes something from all words, in proportion to its attention. The wider a ribbon, the greater the weight.", question: "Point at a word of the heat map below: what does it attend to? Choose single heads: does one have a habit, such as the word before?" },
      { title: "Looking back at the source", text: "To choose the word in the frame, the decoder attends to the source. The brighter a source word is lit, the more it counts.", question: "Which source word does it attend to most? Would you have looked there? Step on: does the attention follow the order of the source?" },
      { title: "One word at a time", text: "The model writes one word, reads what it has written, and computes a probability for everything that could come next. The bars are the likeliest.", question: "What else was likely here? Click it: which words change after it, and which stay?" },
      { title: "Several futures at once", text: "The search does not only follow the likeliest word. At each step it keeps the best unfinished translations, here {beam}, and drops the others (✂).", question: "Step on. When is the second one dropped, and how far was its log-probability behind the first?" },
      { title: "Attention is not the reason", text: "A ribbon shows where information may flow, not why a word was chosen. The bars measure something else: each source word is left out, and the same translation is scored again.", question: "Without which word does the translation become least likely? Is it the one with the widest ribbons?" },
      { title: "Inside one head", text: "A head compares the query of a word with the keys of all words: it multiplies cell by cell, adds up, and divides by √dₖ. The softmax turns the results into weights that sum to 1. With these weights, the head mixes the values.", question: "Move the temperature: what do 0.5 and 2 do to the weights? Point at a key: which cells make it win?" },
      { title: "Is this head needed?", text: "A head that looks sharply need not matter. Here each head can be switched off, and the sentence is translated again. “Try all” does so with each head alone, and shows how much less likely the translation becomes.", question: "Which head is needed most? Find one that looks sharply and changes nothing: which other one may do its work?" },
    ],
  },
  de: {
    lesson: "Lektion {n} von {count}", previous: "Vorige Lektion", next: "Nächste Lektion", close: "Lektionen schließen", more: "Mehr: Kapitel {chapter} des Lehrgangs (englisch)", walkthrough: "en",
    cards: [
      { title: "Aus Wörtern werden Stücke", text: "Das Modell kennt eine feste Liste von Stücken. Ein häufiges Wort ist ein einziges Stück, ein seltenes wird aus mehreren zusammengesetzt. ▁ ist das Leerzeichen vor einem Wort. Auch das Ende des Satzes ist ein Stück.", question: "Welches Wort dieses Satzes hat die meisten Stücke? Tippe einen seltenen Namen ein: Was wird aus ihm?" },
      { title: "Jedes Wort beachtet jedes Wort", text: "Bevor das erste Wort gewählt wird, liest der Encoder den ganzen Ausgangssatz, Schicht für Schicht. In jeder Schicht übernimmt jedes Wort etwas von allen Wörtern, im Verhältnis seiner Aufmerksamkeit. Je breiter ein Band, desto größer das Gewicht.", question: "Zeige unten in der Heatmap auf ein Wort: Welche Wörter beachtet es? Wähle einzelne Köpfe: Hat einer eine Gewohnheit, zum Beispiel das Wort davor?" },
      { title: "Der Blick zurück auf den Ausgangssatz", text: "Um das Wort im Rahmen zu wählen, beachtet der Decoder den Ausgangssatz. Je kräftiger ein Wort dort hinterlegt ist, desto mehr zählt es.", question: "Welches Wort wird am stärksten beachtet? Hättest du auch dorthin geschaut? Geh Schritt für Schritt weiter: Folgt die Aufmerksamkeit der Reihenfolge des Ausgangssatzes?" },
      { title: "Ein Wort nach dem anderen", text: "Das Modell schreibt ein Wort, liest, was es geschrieben hat, und berechnet eine Wahrscheinlichkeit für alles, was folgen könnte. Die Balken zeigen das Wahrscheinlichste.", question: "Was war hier noch wahrscheinlich? Klicke es an: Welche Wörter danach ändern sich, welche bleiben?" },
      { title: "Mehrere Zukünfte zugleich", text: "Die Suche folgt nicht nur dem wahrscheinlichsten Wort. In jedem Schritt behält sie die besten unfertigen Übersetzungen, hier {beam}, und verwirft die anderen (✂).", question: "Geh Schritt für Schritt weiter. Wann wird die zweite verworfen, und wie weit lag ihre Log-Wahrscheinlichkeit hinter der ersten?" },
      { title: "Aufmerksamkeit ist nicht der Grund", text: "Ein Band zeigt, wo Information fließen kann, nicht, warum ein Wort gewählt wurde. Die Balken messen etwas anderes: Jedes Wort des Ausgangssatzes wird einmal weggelassen und dieselbe Übersetzung neu bewertet.", question: "Ohne welches Wort wird die Übersetzung am unwahrscheinlichsten? Ist es das mit den breitesten Bändern?" },
      { title: "In einem Kopf", text: "Ein Kopf vergleicht die Query eines Wortes mit den Keys aller Wörter: Er multipliziert Zelle für Zelle, addiert und teilt durch √dₖ. Der Softmax macht daraus Gewichte, die zusammen 1 ergeben. Mit diesen Gewichten mischt der Kopf die Values.", question: "Verschiebe die Temperatur: Was machen 0,5 und 2 mit den Gewichten? Zeige auf einen Key: Welche Zellen geben den Ausschlag?" },
      { title: "Wird dieser Kopf gebraucht?", text: "Ein Kopf, der scharf hinschaut, muss nicht wichtig sein. Hier lässt sich jeder Kopf ausschalten, und der Satz wird neu übersetzt. „Alle … ausprobieren“ tut das mit jedem einzeln und zeigt, wie viel unwahrscheinlicher die Übersetzung wird.", question: "Welcher Kopf wird am meisten gebraucht? Finde einen, der scharf hinschaut und nichts ändert: Welcher andere könnte seine Arbeit tun?" },
    ],
  },
  zh: {
    lesson: "第 {n} 课，共 {count} 课", previous: "上一课", next: "下一课", close: "关闭课程", more: "更多：教程第 {chapter} 章", walkthrough: "zh",
    cards: [
      { title: "词变成子词", text: "模型只认识一张固定的子词表。常见的词是一个子词，少见的词由几个子词拼成。▁ 是词前的空格。句子的结尾也是一个子词。", question: "这个句子里哪个词的子词最多？输入一个少见的名字：它会变成什么？" },
      { title: "每个词都关注所有的词", text: "在选出第一个词之前，编码器逐层读完整个源句。在每一层，每个词都按注意力的比例从所有的词那里取得信息。带子越宽，权重越大。", question: "在下面的热图中指向一个词：它关注哪些词？再选单个的头：有没有哪个头有固定的习惯，例如总是关注前一个词？" },
      { title: "回看源句", text: "为了选出方框里的词，解码器会关注源句。源句里的词颜色越突出，它的权重就越大。", question: "它最关注源句里的哪个词？你也会看那里吗？继续一步一步走：注意力是按源句的顺序移动的吗？" },
      { title: "一次一个词", text: "模型写下一个词，再读自己已经写下的内容，然后为所有可能的下一个词计算概率。条形图显示其中最可能的几个。", question: "这里还有哪些词也很可能？点击其中一个：后面的哪些词变了，哪些没变？" },
      { title: "同时保留几种可能", text: "搜索并不只跟随最可能的词。每一步它保留最好的几个未完成的译文（这里是 {beam} 个），丢弃其余的（✂）。", question: "继续一步一步走。第二个译文在哪一步被丢弃？它的对数概率比第一个低多少？" },
      { title: "注意力不是原因", text: "带子显示信息可能从哪里流过来，而不是为什么选了这个词。条形图测量的是另一件事：每次去掉一个源词，再给同一个译文重新打分。", question: "去掉哪个词后，这个译文的概率降得最多？它是带子最宽的那个词吗？" },
      { title: "一个头的内部", text: "头把一个词的查询与所有词的键相比较：逐格相乘、相加，再除以 √dₖ。Softmax 把结果变成总和为 1 的权重，头再用这些权重混合各个值。", question: "移动温度：0.5 和 2 对权重有什么影响？指向一个键：是哪些格让它胜出？" },
      { title: "这个头需要吗？", text: "关注集中的头不一定重要。这里可以关闭每个头，句子会重新翻译。“逐个试全部”会单独关闭每个头，显示译文的概率降低多少。", question: "最需要的是哪个头？找一个关注集中、但关闭后没有变化的头：哪个头可能代替它的工作？" },
    ],
  },
};
