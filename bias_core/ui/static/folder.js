// A folder of the visitor's, packed into a zip by the page itself: uploads would lose its folders' names.
// Pictures are packed already, so they are stored as they are (method 0).
const input = element.querySelector('#runs-folder');
const status = element.querySelector('#runs-folder-status');
// Other kinds of pictures come along, to be named; so do the texts beside pictures.
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
    const name = new TextEncoder().encode(file.webkitRelativePath);
    const data = new Uint8Array(await file.arrayBuffer());
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
input.addEventListener('change', async () => {
  const files = [...input.files].filter((file) => WANTED.test(file.webkitRelativePath));
  const size = files.reduce((n, file) => n + file.size, 0);
  if (!files.length) { status.textContent = 'No pictures in this folder.'; return; }
  if (size > MOST || files.length > 65000) {
    status.textContent = `More than ${upload_mb} MB, or 65,000 files: choose a part of it.`;
    return;
  }
  status.textContent = `Packing ${files.length} files …`;
  const name = files[0].webkitRelativePath.split('/')[0] || 'folder';
  const given = new DataTransfer();
  given.items.add(new File([await zip(files)], `${name}.zip`, {type: 'application/zip'}));
  const target = document.querySelector('#runs-upload input[type=file]');
  if (!target) { status.textContent = 'Remove the file above first.'; return; }
  target.files = given.files;
  target.dispatchEvent(new Event('change', {bubbles: true}));
  status.textContent = `${files.length} files packed.`;
  input.value = '';
});
