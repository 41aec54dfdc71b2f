// Gradio's page watches every part of its own description for changes, of which there are none, while it compares each
// component with each event: nearly half of its start. It leaves an array of another class unwatched, and what the
// filter of such an array makes.
class Constant extends Array {}
Object.setPrototypeOf(window.gradio_config.dependencies, Constant.prototype);
