// Everything is in the page: moving over a step, dragging the slider, the arrow keys and Play ask the server
// for nothing.
const show = (film, wanted) => {
  const last = Number(film.dataset.steps) + 1;
  const step = Math.min(Math.max(Math.round(wanted), 1), last);
  const name = step === last ? 'finished' : `step ${step} of ${last - 1}`;
  const slider = film.querySelector('input[type=range]');
  film.style.setProperty('--at', (step - 0.5) / last);
  slider.value = step;
  slider.setAttribute('aria-valuetext', name);
  film.querySelector('output').textContent = name;
  film.querySelectorAll('[data-at]').forEach((node) => { node.hidden = Number(node.dataset.at) !== step; });
  film.querySelectorAll('[data-seed]').forEach((seed) => {
    const strip = [...film.querySelectorAll(`[data-strip="${seed.dataset.seed}"] img`)];
    const here = strip.filter((image) => Number(image.dataset.step) <= step).pop() ?? strip[0];
    strip.forEach((image) => image.classList.toggle('here', image === here));
    seed.querySelector('img').src = here.src;
    const reads = here.dataset.reads.split(' ');
    seed.querySelectorAll('[data-sees]').forEach((name) => {
      const isSeen = reads.includes(name.dataset.sees);
      name.classList.toggle('unseen', !isSeen);
      name.setAttribute('aria-label', `${name.textContent}: ${isSeen ? 'seen' : 'not seen'}`);
    });
  });
  film.querySelectorAll('[data-tops]').forEach((dot) => { dot.style.top = `${dot.dataset.tops.split(' ')[step - 1]}%`; });
};
const now = (film) => Number(film.querySelector('input[type=range]').value);
const pause = (film) => {
  clearInterval(film.timer);
  film.timer = undefined;
  film.querySelector('.film-play').textContent = 'Play';
};
const play = (film) => {
  const last = Number(film.dataset.steps) + 1;
  film.querySelector('.film-play').textContent = 'Pause';
  if (now(film) === last) show(film, 1);
  film.timer = setInterval(() => {
    if (!film.isConnected || now(film) === last) pause(film); else show(film, now(film) + 1);
  }, 450);
};
const follow = (event) => {
  const film = event.target.closest('.film');
  const over = event.target.closest('.film-plot, .film-strip');
  if (!film || !over || film.timer) return;
  const box = over.getBoundingClientRect();
  show(film, (event.clientX - box.left) / box.width * (Number(film.dataset.steps) + 1) + 0.5);
};
element.addEventListener('pointermove', follow);
element.addEventListener('pointerdown', (event) => {
  const film = event.target.closest('.film');
  if (!event.target.closest('.film-plot, .film-strip')) return;
  if (film.timer) pause(film);
  follow(event);
  setTimeout(() => film.querySelector('input[type=range]').focus(), 0);
});
element.addEventListener('input', (event) => {
  const film = event.target.closest('.film');
  if (film.timer) pause(film);
  show(film, Number(event.target.value));
});
element.addEventListener('click', (event) => {
  const film = event.target.closest('.film');
  const line = event.target.closest('[data-line]');
  if (event.target.closest('.film-play')) (film.timer ? pause : play)(film);
  if (line) {
    const shown = line.getAttribute('aria-pressed') !== 'true';
    line.setAttribute('aria-pressed', shown);
    const drawn = film.querySelectorAll(`.line-${line.dataset.line}`);
    drawn.forEach((node) => node.classList.toggle('off', !shown));
  }
});
