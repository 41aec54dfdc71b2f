"""The whole app from its tabs, and how it is served."""

from __future__ import annotations

import importlib.util
import os
from typing import TYPE_CHECKING, Any

import gradio as gr

from bias_core.ui import api, explore
from bias_core.ui.association import AssociationTab
from bias_core.ui.theme import CSS, FAVICON, build_theme
from bias_core.ui.visitor import Visitor

if TYPE_CHECKING:
    from bias_core.services import Services

TITLE = "T2I Bias Explorer"
TABS = (AssociationTab,)
_HEADER = """
<header class="top">
<svg viewBox="0 0 64 32" aria-hidden="true">
<path d="M4 16h56M4 8v16M60 8v16"/><circle cx="38" cy="16" r="7"/></svg>
<div><h1>T2I Bias Explorer</h1>
<p>What does a text-to-image model draw, how far is that from the world, and how sure can you be?</p></div>
</header>
"""
# Gradio names every thumbnail "Thumbnail 1 of 16"; a screen reader should hear the caption that is seen.
_NAME_THUMBNAILS = """
const name = () => document.querySelectorAll('#grid .thumbnail-item').forEach((button) => {
  const caption = button.querySelector('.caption-label')?.textContent.trim();
  if (caption && button.getAttribute('aria-label') !== caption) button.setAttribute('aria-label', caption);
});
new MutationObserver(name).observe(document.body, {childList: true, subtree: true, attributes: true,
  attributeFilter: ['aria-label']});
"""
_CACHE_SECONDS = 3600


def build_app(services: Services) -> gr.Blocks:
    """The page; no model is loaded for it."""
    with gr.Blocks(
        title=TITLE, analytics_enabled=False, delete_cache=(_CACHE_SECONDS, _CACHE_SECONDS)
    ) as demo:
        gr.HTML(_HEADER, js_on_load=_NAME_THUMBNAILS)
        visitor = gr.State(Visitor(), delete_callback=Visitor.leave)
        with gr.Tabs(elem_id="tabs"):
            with gr.Tab("Explore", id="explore"):
                explore.build(demo, services, visitor)
            for tab in TABS:
                with gr.Tab(tab.title, id=tab.key):
                    tab(services).build(demo, visitor)
        api.add_tools(services)
    demo.queue(max_size=32, default_concurrency_limit=8)
    return demo


def launch_options(services: Services) -> dict[str, Any]:
    """Everything for ``Blocks.launch``: closed by default, and only pictures are served."""
    settings = services.settings
    data = settings.data_dir
    return {
        "server_name": os.environ.get("GRADIO_SERVER_NAME", settings.host),
        "server_port": int(os.environ.get("GRADIO_SERVER_PORT", settings.port)),
        "share": False,
        "enable_monitoring": False,
        "run_history": False,
        "show_error": False,
        "ssr_mode": False,
        "mcp_server": importlib.util.find_spec("mcp") is not None,
        "state_session_capacity": 200,
        "max_file_size": "50mb",
        "allowed_paths": [str(data / "images")],
        "blocked_paths": [str(data / "runs"), str(data / "embeddings.sqlite"), str(settings.assets_dir)],
        "footer_links": ["api", "gradio", "settings"],
        "theme": build_theme(),
        "css_paths": [CSS],
        "favicon_path": FAVICON,
    }


def launch(services: Services) -> None:
    """Build and serve until interrupted; says where."""
    options = launch_options(services)
    print(f"{TITLE}: http://{options['server_name']}:{options['server_port']}", flush=True)
    try:
        build_app(services).launch(quiet=True, **options)
    finally:
        services.close()
