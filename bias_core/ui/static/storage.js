// A page inside of another site's may be forbidden its storage (strict settings, a private window): to look at it throws
// then, and Gradio's page, whose BrowserState looks, stays at "Loading…". Storages of this page's memory take its place.
for (const name of ['localStorage', 'sessionStorage']) {
  try {
    window[name].length;
  } catch {
    const kept = new Map();
    const memory = {
      get length() { return kept.size; },
      key: at => [...kept.keys()][at] ?? null,
      getItem: key => kept.get(String(key)) ?? null,
      setItem: (key, value) => { kept.set(String(key), String(value)); },
      removeItem: key => { kept.delete(String(key)); },
      clear: () => { kept.clear(); },
    };
    Object.defineProperty(window, name, {value: memory, configurable: true});
  }
}
