// The lessons: eight cards in each language. `fields` are those of a link (see view.js), `show`
// is the section that the card is about, and `chapter` that of the walkthrough.

const LESSON_VIEWS = [
  { fields: { w: 0, k: "cross", h: "mean", s: "" }, show: "stage", chapter: "01-text" },
  { fields: { w: 1, k: "encoder", l: 0, h: "mean", s: "first" }, show: "stage", chapter: "04-attention" },
  { fields: { w: 1, k: "cross", h: "mean", s: 3 }, show: "stage", chapter: "06-model" },
  { fields: { w: 1, k: "cross", h: "mean", s: "unsure" }, show: "stage", chapter: "06-model" },
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
      { title: "Words become pieces", text: "The model knows a fixed list of pieces. A frequent word is one piece; a rare one is put together from several. ▁ is the space before a word. The end of the sentence is a piece, too.", question: "Is a word of this sentence put together from several pieces? Type a rare name: what becomes of it?" },
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
      { title: "Aus Wörtern werden Stücke", text: "Das Modell kennt eine feste Liste von Stücken. Ein häufiges Wort ist ein einziges Stück, ein seltenes wird aus mehreren zusammengesetzt. ▁ ist das Leerzeichen vor einem Wort. Auch das Ende des Satzes ist ein Stück.", question: "Ist ein Wort dieses Satzes aus mehreren Stücken zusammengesetzt? Tippe einen seltenen Namen ein: Was wird aus ihm?" },
      { title: "Jedes Wort beachtet jedes Wort", text: "Bevor das erste Wort gewählt wird, liest der Encoder den ganzen Ausgangssatz, Schicht für Schicht. In jeder Schicht übernimmt jedes Wort etwas von allen Wörtern, im Verhältnis seiner Aufmerksamkeit. Je breiter ein Band, desto größer das Gewicht.", question: "Zeige unten in der Heatmap auf ein Wort: Welche Wörter beachtet es? Wähle einzelne Köpfe: Hat einer eine Gewohnheit, zum Beispiel das Wort davor?" },
      { title: "Der Blick zurück auf den Ausgangssatz", text: "Um das Wort im Rahmen zu wählen, beachtet der Decoder den Ausgangssatz. Je kräftiger ein Wort dort hinterlegt ist, desto mehr zählt es.", question: "Welches Wort wird am stärksten beachtet? Hättest du auch dorthin geschaut? Geh Schritt für Schritt weiter: Folgt die Aufmerksamkeit der Reihenfolge des Ausgangssatzes?" },
      { title: "Ein Wort nach dem anderen", text: "Das Modell schreibt ein Wort, liest, was es geschrieben hat, und berechnet eine Wahrscheinlichkeit für alles, was folgen könnte. Die Balken zeigen das Wahrscheinlichste.", question: "Was war hier noch wahrscheinlich? Klicke es an: Welche Wörter danach ändern sich, welche bleiben?" },
      { title: "Mehrere Zukünfte zugleich", text: "Die Suche folgt nicht nur dem wahrscheinlichsten Wort. In jedem Schritt behält sie die besten unfertigen Übersetzungen, hier {beam}, und verwirft die anderen (✂).", question: "Geh Schritt für Schritt weiter. Wann wird die zweite verworfen, und wie weit lag ihre Log-Wahrscheinlichkeit hinter der ersten?" },
      { title: "Aufmerksamkeit ist nicht der Grund", text: "Ein Band zeigt, wo Information fließen kann, nicht, warum ein Wort gewählt wurde. Die Balken messen etwas anderes: Jedes Wort des Ausgangssatzes wird einmal weggelassen und dieselbe Übersetzung neu bewertet.", question: "Ohne welches Wort wird die Übersetzung am unwahrscheinlichsten? Ist es das mit den breitesten Bändern?" },
      { title: "In einem Kopf", text: "Ein Kopf vergleicht die Query eines Wortes mit den Keys aller Wörter: Er multipliziert Zelle für Zelle, addiert und teilt durch √dₖ. Der Softmax macht daraus Gewichte, die zusammen 1 ergeben. Mit diesen Gewichten mischt der Kopf die Values.", question: "Verschiebe die Temperatur: Was machen 0,5 und 2 mit den Gewichten? Zeige auf einen Key: Welche Zellen geben den Ausschlag?" },
      { title: "Wird dieser Kopf gebraucht?", text: "Ein Kopf, der scharf hinschaut, muss nicht wichtig sein. Hier lässt sich jeder Kopf ausschalten, und der Satz wird neu übersetzt. „Alle … ausprobieren“ tut das mit jedem einzeln und zeigt, wie viel unwahrscheinlicher die Übersetzung wird.", question: "Welcher Kopf wird am meisten gebraucht? Finde einen, der scharf hinschaut und nichts ändert: Welcher andere könnte seine Arbeit tun?" },
    ],
  },
  es: {
    lesson: "Lección {n} de {count}", previous: "Lección anterior", next: "Lección siguiente", close: "Cerrar las lecciones", more: "Más: capítulo {chapter} del curso (en inglés)", walkthrough: "en",
    cards: [
      { title: "Las palabras se convierten en piezas", text: "El modelo conoce una lista fija de piezas. Una palabra frecuente es una sola pieza; una rara se compone de varias. ▁ es el espacio delante de una palabra. El final de la oración también es una pieza.", question: "¿Hay en esta oración una palabra compuesta de varias piezas? Escribe un nombre poco común: ¿en qué se convierte?" },
      { title: "Cada palabra atiende a todas las palabras", text: "Antes de que se elija la primera palabra, el codificador lee todo el original, capa por capa. En cada capa, cada palabra toma algo de todas las palabras, en proporción a su atención. Cuanto más ancha es una cinta, mayor es el peso.", question: "Señala una palabra en el mapa de calor de abajo: ¿a qué atiende? Elige cabezas sueltas: ¿tiene alguna una costumbre, como mirar la palabra anterior?" },
      { title: "Una mirada atrás, al original", text: "Para elegir la palabra del marco, el decodificador atiende al original. Cuanto más resaltada está una palabra del original, más cuenta.", question: "¿A qué palabra del original atiende más? ¿Habrías mirado tú ahí? Avanza paso a paso: ¿sigue la atención el orden del original?" },
      { title: "Una palabra tras otra", text: "El modelo escribe una palabra, lee lo que ha escrito y calcula una probabilidad para todo lo que podría venir después. Las barras muestran lo más probable.", question: "¿Qué más era probable aquí? Elígelo: ¿qué palabras posteriores cambian y cuáles se mantienen?" },
      { title: "Varios futuros a la vez", text: "La búsqueda no sigue solo la palabra más probable. En cada paso conserva las mejores traducciones sin terminar, aquí {beam}, y descarta las demás (✂).", question: "Avanza paso a paso. ¿Cuándo se descarta la segunda y a qué distancia de la primera estaba su log-probabilidad?" },
      { title: "La atención no es la razón", text: "Una cinta muestra por dónde puede fluir la información, no por qué se eligió una palabra. Las barras miden otra cosa: se omite cada palabra del original y se vuelve a puntuar la misma traducción.", question: "¿Sin qué palabra se vuelve menos probable la traducción? ¿Es la de las cintas más anchas?" },
      { title: "Dentro de una cabeza", text: "Una cabeza compara la consulta de una palabra con las claves de todas las palabras: multiplica celda por celda, suma y divide por √dₖ. La softmax convierte los resultados en pesos que suman 1. Con estos pesos, la cabeza mezcla los valores.", question: "Mueve la temperatura: ¿qué efecto tienen 0,5 y 2 en los pesos? Señala una clave: ¿qué celdas la hacen ganar?" },
      { title: "¿Hace falta esta cabeza?", text: "Una cabeza de atención muy concentrada no tiene por qué ser importante. Aquí se puede desactivar cada cabeza y la oración se traduce de nuevo. «Probar las …» lo hace con cada una por separado y muestra cuánto menos probable se vuelve la traducción.", question: "¿Qué cabeza hace más falta? Busca una de atención muy concentrada que no cambie nada: ¿qué otra podría hacer su trabajo?" },
    ],
  },
  fr: {
    lesson: "Leçon {n} sur {count}", previous: "Leçon précédente", next: "Leçon suivante", close: "Fermer les leçons", more: "En savoir plus : chapitre {chapter} du parcours (en anglais)", walkthrough: "en",
    cards: [
      { title: "Les mots deviennent des sous-mots", text: "Le modèle connaît une liste fixe de sous-mots. Un mot fréquent est un seul sous-mot ; un mot rare en réunit plusieurs. ▁ est l’espace qui précède un mot. La fin de la phrase est aussi un sous-mot.", question: "Un mot de cette phrase est-il composé de plusieurs sous-mots ? Saisir un nom rare : que devient-il ?" },
      { title: "Chaque mot prête attention à tous les mots", text: "Avant le choix du premier mot, l’encodeur lit toute la source, couche par couche. Dans chaque couche, chaque mot prend quelque chose de tous les mots, à proportion de son attention. Plus un ruban est large, plus le poids est grand.", question: "Pointer un mot de la carte de chaleur, plus bas : à quoi prête-t-il attention ? Choisir des têtes une à une : l’une d’elles a-t-elle une habitude, comme regarder le mot précédent ?" },
      { title: "Un regard en arrière sur la source", text: "Pour choisir le mot encadré, le décodeur prête attention à la source. Plus un mot source est mis en lumière, plus il compte.", question: "À quel mot source prête-t-il le plus attention ? Était-ce là qu’il fallait regarder ? Avancer pas à pas : l’attention suit-elle l’ordre de la source ?" },
      { title: "Un mot à la fois", text: "Le modèle écrit un mot, relit ce qu’il a écrit, et calcule une probabilité pour tout ce qui pourrait suivre. Les barres montrent les suites les plus probables.", question: "Qu’est-ce qui était aussi probable ici ? Cliquer dessus : parmi les mots suivants, lesquels changent, et lesquels restent ?" },
      { title: "Plusieurs avenirs à la fois", text: "La recherche en faisceau ne suit pas seulement le mot le plus probable. À chaque étape, elle garde les meilleures traductions inachevées, ici {beam}, et écarte les autres (✂).", question: "Avancer pas à pas. Quand la deuxième est-elle écartée, et de combien sa log-probabilité était-elle inférieure à celle de la première ?" },
      { title: "L’attention n’est pas la raison", text: "Un ruban montre par où l’information peut circuler, pas pourquoi un mot a été choisi. Les barres mesurent autre chose : chaque mot source est omis à son tour, et la même traduction est réévaluée.", question: "Sans quel mot la traduction devient-elle la moins probable ? Est-ce celui qui a les rubans les plus larges ?" },
      { title: "À l’intérieur d’une tête", text: "Une tête compare la requête d’un mot aux clés de tous les mots : elle multiplie cellule par cellule, additionne, et divise par √dₖ. Le softmax transforme les résultats en poids dont la somme vaut 1. Avec ces poids, la tête mélange les valeurs.", question: "Déplacer la température : quel effet ont 0,5 et 2 sur les poids ? Pointer une clé : quelles cellules la font gagner ?" },
      { title: "Cette tête est-elle nécessaire ?", text: "Une tête à l’attention très concentrée n’est pas forcément importante. Ici, chaque tête peut être désactivée, et la phrase est alors retraduite. « Essayer les … têtes » le fait pour chacune séparément, et montre combien la traduction devient moins probable.", question: "De quelle tête a-t-on le plus besoin ? En trouver une dont l’attention est très concentrée et qui ne change rien : quelle autre tête pourrait faire son travail ?" },
    ],
  },
  zh: {
    lesson: "第 {n} 课，共 {count} 课", previous: "上一课", next: "下一课", close: "关闭课程", more: "更多：教程第 {chapter} 章", walkthrough: "zh",
    cards: [
      { title: "词变成子词", text: "模型只认识一张固定的子词表。常见的词是一个子词，少见的词由几个子词拼成。▁ 是词前的空格。句子的结尾也是一个子词。", question: "这个句子里有没有由几个子词拼成的词？输入一个少见的名字：它会变成什么？" },
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
