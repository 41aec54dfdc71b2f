// Gradio's page compares each component with each event, and watches every part of its own description for changes, of
// which there are none: two thirds of its start. It leaves an array of another class unwatched, and what the filter of
// such an array makes. It also looks in vain for the components of events that follow others, which have none, and for
// those of programs, which are no part of the page.
class Constant extends Array {}
const config = window.gradio_config;
const unseen = new Set(config.components.filter(one => one.type === 'api').map(one => one.id));
for (const event of config.dependencies) event.targets = event.targets.filter(([number]) => number !== null);
for (const page of Object.values(config.page)) {
  page.components = page.components.filter(number => !unseen.has(number));
  page.layout.children = page.layout.children.filter(child => !unseen.has(child.id));
}
Object.setPrototypeOf(config.dependencies, Constant.prototype);
