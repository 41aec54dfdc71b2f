// A visitor's pictures, packed into one zip by the page itself: uploads would lose the names of folders.
// Pictures are packed already, so they are stored as they are (method 0).
const find = (name) => element.querySelector(`#${key}-${name}`);
const status = find('folder-status'), leftOut = find('left-out'), drop = find('drop');
// Other kinds of pictures are sent too, so that the server can name them; so are texts next to pictures.
const WANTED = new RegExp(
  '\\.(a?png|jpe?g?|jfif|jp2|webp|bmp|gif|tiff?|avif|hei[cf]|jxl|svg|psd|tga|exr|p[pgbn]m|txt|caption|jsonl?|csv|tsv'
  + '|parquet)$|(^|/)[^./]+$', 'i');
const MOST = upload_mb * 98e4;  // a zip is a little larger than its files
const table = Uint32Array.from({length: 256}, (_, n) => {
  for (let k = 0; k < 8; k++) n = n & 1 ? 0xEDB88320 ^ (n >>> 1) : n >>> 1;
  return n >>> 0;
});
const checksum = (bytes) => {
  let sum = ~0;
  for (const byte of bytes) sum = table[(sum ^ byte) & 255] ^ (sum >>> 8);
  return ~sum >>> 0;
};
const packed = (...numbers) => {
  const bytes = new DataView(new ArrayBuffer(numbers.reduce((n, [size]) => n + size, 0)));
  let at = 0;
  for (const [size, value] of numbers) {
    size === 2 ? bytes.setUint16(at, value, true) : bytes.setUint32(at, value, true);
    at += size;
  }
  return bytes.buffer;
};
const zip = async (files) => {
  const parts = [], central = [];
  let offset = 0, length = 0;
  for (const file of files) {
    const name = new TextEncoder().encode(file.path);
    const data = new Uint8Array(await file.data.arrayBuffer());
    const common = [[2, 20], [2, 0x0800], [2, 0], [2, 0], [2, 33], [4, checksum(data)],
      [4, data.length], [4, data.length], [2, name.length], [2, 0]];
    const entry = [[4, 0x02014b50], [2, 20], ...common, [2, 0], [2, 0], [2, 0], [4, 0], [4, offset]];
    parts.push(packed([4, 0x04034b50], ...common), name, data);
    central.push(packed(...entry), name);
    offset += 30 + name.length + data.length;
    length += 46 + name.length;
  }
  const n = files.length;
  const end = packed([4, 0x06054b50], [2, 0], [2, 0], [2, n], [2, n], [4, length], [4, offset], [2, 0]);
  return new Blob([...parts, ...central, end], {type: 'application/zip'});
};
const sizeOf = (files) => files.reduce((n, file) => n + file.data.size, 0);
const send = async (files) => {
  const isZip = files.length === 1 && /\.zip$/i.test(files[0].path);
  const wanted = isZip ? files : files.filter((file) => WANTED.test(file.path));
  const kept = new Set(wanted);
  const others = files.filter((file) => !kept.has(file) && !/(^|\/)(\.|__MACOSX\/|Thumbs\.db$)/.test(file.path));
  leftOut.hidden = !others.length;
  leftOut.querySelector('summary').textContent =
    `${others.length} ${others.length === 1 ? 'file was' : 'files were'} left out: neither pictures nor texts`;
  leftOut.querySelector('ul').replaceChildren(
    ...others.map((file) => Object.assign(document.createElement('li'), {textContent: file.path})));
  if (!wanted.length) { status.textContent = 'No pictures here.'; return; }
  if (sizeOf(wanted) > MOST || wanted.length > 65000) {
    status.textContent = `More than ${upload_mb} MB, or 65,000 files: choose a part of it.`;
    return;
  }
  const words = wanted.length === 1 ? wanted[0].path : `${wanted.length} files`;
  status.textContent = `Sending ${words} …`;
  const tops = new Set(wanted.map((file) => file.path.split('/')[0]));
  const name = tops.size === 1 && wanted[0].path.includes('/') ? [...tops][0] : 'pictures';
  const given = new DataTransfer();
  given.items.add(isZip ? files[0].data : new File([await zip(wanted)], `${name}.zip`, {type: 'application/zip'}));
  const target = document.querySelector(`#${key}-upload input[type=file]`);
  target.files = given.files;
  target.dispatchEvent(new Event('change', {bubbles: true}));
};
for (const name of ['files', 'folder']) {
  const input = find(name);
  input.addEventListener('change', async () => {
    await send([...input.files].map((data) => ({path: data.webkitRelativePath || data.name, data})));
    input.value = '';
  });
}
// Files of a dropped file or folder, with their paths in it.
const below = async (entry) => {
  if (entry.isFile) {
    const data = await new Promise((done, failed) => entry.file(done, failed));
    return [{path: entry.fullPath.slice(1), data}];
  }
  const reader = entry.createReader(), files = [];
  for (;;) {  // a reader gives some of the entries at a time
    const some = await new Promise((done, failed) => reader.readEntries(done, failed));
    if (!some.length) return files;
    for (const one of some) files.push(...await below(one));
  }
};
for (const kind of ['dragenter', 'dragover', 'dragleave', 'drop']) {
  drop.addEventListener(kind, (event) => {
    event.preventDefault();
    drop.classList.toggle('over', kind === 'dragenter' || kind === 'dragover');
  });
}
drop.addEventListener('drop', async ({dataTransfer}) => {
  const entries = [...dataTransfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
  const files = entries.length ? (await Promise.all(entries.map(below))).flat()
    : [...dataTransfer.files].map((data) => ({path: data.name, data}));
  await send(files);
});
