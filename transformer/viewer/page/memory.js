// Make the browser free what is dead. It does so when much memory has been taken, and an array
// into which nothing is written takes none.
function collectGarbage() {
  try {
    new ArrayBuffer(2 ** 26);
  } catch {
    // There is too little memory even for that: the browser has just looked for some.
  }
}
