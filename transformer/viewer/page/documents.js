// Links to the documentation as a site, if the page knows its address: `data.docs`.

// A link to a document, such as "seeing" or "walkthrough/en/04-attention".
function linkToDocument(name, ...children) {
  const { docs } = page.source;
  const address = new URL(`${name}.html`, new URL(`${docs}/`, document.baseURI));
  return makeElement("a", { href: address, target: "_blank", rel: "noreferrer" }, ...children);
}

// What there is to read about the page.
function showDocuments() {
  byId("documents").hidden = !page.source.docs;
  if (page.source.docs) {
    const { walkthrough } = LESSONS[reader.language];
    const tour = linkToDocument("seeing", say`a tour of this page`);
    const chapters = linkToDocument(`walkthrough/${walkthrough}/index`, say`how a Transformer works, in twelve chapters`);
    const code = linkToDocument("api/transformer/blocks/attention", say`the code of attention`);
    replaceChildren(byId("documents"), sayWith`To read: ${tour}, ${chapters}, ${code}.`);
  }
}
