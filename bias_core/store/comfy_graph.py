"""Follow ComfyUI's graph from a saved picture back to its texts and settings."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import wraps
from pathlib import PurePosixPath
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar, cast

from bias_core.store.drawing_facts import (
    LARGEST_SEED,
    LARGEST_SIDE,
    MOST_STEPS,
    PictureMetadata,
    agreed,
    choose_guidance,
    clean_line,
    different,
    find_loras,
    guidance,
    number,
    quote_excerpt,
    several_prompts,
    short_name,
    whole,
    with_schedule,
    without_networks,
)
from bias_core.values import read_json

T = TypeVar("T")
P = ParamSpec("P")
Role = Literal["positive", "negative"]
Find = Callable[Concatenate["_Graph", P], T]

_TEXTS = ("text", "text_g", "text_l", "clip_l", "clip_g", "t5xxl", "llama", "prompt", "populated_text")
_NO_CONDITIONING = {
    role: re.compile(f"{reverse}|clip|model|vae|image|pixels|latent|samples|control_net|mask|noise|style|sigmas|sampler"
                     "|bbox|sam_|guidance", re.IGNORECASE)
    for role, reverse in (("positive", "negative"), ("negative", "positive"))
}  # fmt: skip
_NO_PICTURE = re.compile(
    "positive|negative|conditioning|model|guider|noise|sigmas|^sampler$|embeds|clip|vae|control_net|detector|text|pipe",
    re.IGNORECASE,
)
_PIPES = ("pipe", "basic_pipe", "detailer_pipe", "context", "base_ctx", "guider")
_JOINS = re.compile("concat|join|append|combine|merge", re.IGNORECASE)
_PLAIN = re.compile("primitive|string|text|prompt|show|preview|display|reroute|literal|note|box", re.IGNORECASE)
_CHANGES = re.compile(
    "wildcard|random|dynamic|dp|llm|gpt|llama|caption|florence|interrog|tagger|blip|expan|enhanc|rewrit|translat|styler"
    "|regex|replace|case|trim|substring|truncat|format|slice|split|extract",
    re.IGNORECASE,
)
_PART = re.compile(
    r"(?:text|string|prompt|str|value|input|part|prepend|append|prefix|suffix|before|after)_?(?:[a-z]|\d{1,2})?", 2
)
_SWITCH = re.compile("switch|select|index|choose", re.IGNORECASE)
_PICKS = re.compile(
    "(?<!multi)line|list|cycl|iterat|increment|queue|index|select|pick|batch", re.IGNORECASE
)  # from lines
_WILD = re.compile(r"\{[^{}|]*\||__\w")  # text that a wild-card node replaces
_MODEL = re.compile(r"(?:opt_|base_)?model_?[a-z0-9]?|model_override|\w*lora_?stack\w*")
_LORA_INPUT = re.compile("lora|lyco|hyper|switch|toggle|mode$|strength|weight|str_")
_LONGEST_MADE = 1_000_000  # characters: a text that is joined with itself doubles each time
_MODEL_NAMES = ("ckpt_name", "unet_name", "base_ckpt_name", "model_path", "model_name")


class _Unclear(Exception):
    """A text cannot be followed; the message says why."""


def _once(find: Find[P, T]) -> Find[P, T]:
    """Compute a method's result once; _Unclear each time if the graph does not tell or leads to itself."""

    @wraps(find)
    def find_once(graph: "_Graph", /, *args: P.args, **kwargs: P.kwargs) -> T:
        key = (find, *args)
        if key not in graph.results:
            graph.results[key] = _Unclear("its workflow leads back to itself")
            try:
                graph.results[key] = find(graph, *args, **kwargs)
            except _Unclear as error:
                graph.results[key] = error
            except RecursionError:
                graph.results[key] = _Unclear("its workflow is too deep to follow")
        if isinstance(known := graph.results[key], _Unclear):
            raise known
        return cast("T", known)

    return find_once


def facts_of_graph(text: str, file_name: str = "") -> PictureMetadata:
    """Return the facts of the picture of this name, from the executed graph.

    The page's ``workflow`` is not needed: programs that call ComfyUI have none.

    Raises ValueError, TypeError, LookupError, AttributeError or RecursionError: it is not a graph.
    """
    written = read_json(text).items()
    nodes = {str(key): node for key, node in written if isinstance(node, dict) and "inputs" in node}
    if not nodes:
        raise ValueError
    graph = _Graph({key: dict(node["inputs"]) for key, node in nodes.items() if isinstance(node["inputs"], dict)},
                   {key: str(node.get("class_type", "")) for key, node in nodes.items()})  # fmt: skip
    found = [graph.facts(end) for end in graph.ends(file_name)]
    prompts = different(facts.prompt or facts.unclear for facts in found)
    if len(prompts) > 1:  # the file's name does not tell which of them it is
        return PictureMetadata(program="ComfyUI", unclear=several_prompts(prompts))
    if not found:
        return PictureMetadata(program="ComfyUI", unclear="no sampler was found in its workflow")
    return _common(found) if len(found) > 1 else found[0]


def _common(pictures: list[PictureMetadata]) -> PictureMetadata:
    """The facts that several pictures of one workflow and prompt share."""
    names = ("negative_prompt", "seed", "num_inference_steps", "guidance_scale", "sampler", "model", "width", "height")
    values: dict[str, Any] = {name: agreed(getattr(facts, name) for facts in pictures) for name in names}
    values |= {name: values[name] or "" for name in ("negative_prompt", "sampler", "model")}
    further = tuple(different(text for facts in pictures for text in facts.further))
    return PictureMetadata(
        program="ComfyUI", prompt=pictures[0].prompt, unclear=pictures[0].unclear, further=further, **values
    )


class _Graph:
    """The nodes by number: ``inputs``, and ``kinds``, their class names."""

    def __init__(self, inputs: Mapping[str, dict[str, Any]], kinds: Mapping[str, str]) -> None:
        self.inputs, self.kinds = inputs, kinds
        self.results: dict[tuple[object, ...], Any] = {}  # of methods and their arguments
        self._text_outputs: dict[str, set[str]] = {}  # outputs of each node that are used as texts
        for name, value in (pair for values in inputs.values() for pair in values.items()):
            if (name in _TEXTS or _PART.fullmatch(name)) and (link := self._link(value)):
                self._text_outputs.setdefault(link, set()).add(str(value[1]))

    def ends(self, file_name: str) -> list[str]:
        """Nodes that may have saved the file: those with a prefix of its name, else all that save or end something."""
        used = {link for inputs in self.inputs.values() for value in inputs.values() if (link := self._link(value))}
        saving = [node for node in self.inputs if re.search("save", self.kinds[node], re.IGNORECASE)]
        ends = [node for node in saving if self._passes(node)]
        ends = ends or [node for node in self.inputs if node not in used and self._passes(node)]
        prefixes = {node: PurePosixPath(str(self.inputs[node].get("filename_prefix", ""))).name for node in ends}
        fitting = [node for node in ends if PurePosixPath(file_name).name.startswith(prefixes[node])]
        longest = max((len(prefixes[node]) for node in fitting), default=0)
        return [node for node in fitting if len(prefixes[node]) == longest > 0] or ends

    def facts(self, end: str) -> PictureMetadata:
        passes = self._passes(end)
        first = [sampler for sampler in passes if len(self._passes(sampler)) == 1]
        try:
            prompts = different(text for sampler in first for text in self._texts(sampler, "positive"))
            unclear = several_prompts(different(map(without_networks, prompts)))
        except _Unclear as error:
            prompts, unclear = [], str(error)
        prompt = "" if unclear else without_networks(prompts[0])
        # A refiner adds no noise: its seed decides nothing.
        drawing = [sampler for sampler in passes if self._setting(sampler, "add_noise") != "disable"]
        guided = [sampler for sampler in first if number(self._setting(sampler, "cfg")) != 1]
        negatives = self._safe_texts(guided, "negative")
        is_clear = len(negatives) == 1 and not negatives[0].startswith("its workflow ")
        negative = without_networks(negatives[0]) if is_clear else ""
        notes = [] if is_clear else [f"negative prompt {quote_excerpt(text)}" for text in negatives]
        width, height = self._size(end)
        loaders = (loader for sampler in passes for loader in self._before(sampler, self._model_links))
        loras = tuple(different(name for loader in loaders for name in self._find_own_loras(loader)))
        names = {name.partition(":")[0] for name in loras}
        unloaded = [name for name in find_loras({}, prompts) if name.partition(":")[0] not in names]
        notes += [f"LoRA {name} is written in the prompt, and no node loads it" for name in unloaded]
        return PictureMetadata(
            program="ComfyUI",
            prompt=prompt,
            unclear=unclear,
            negative_prompt=negative,
            seed=agreed(self._seed(sampler) for sampler in drawing),
            num_inference_steps=agreed(whole(self._setting(sampler, "steps"), MOST_STEPS) for sampler in passes),
            guidance_scale=agreed(self._guidance(sampler) for sampler in passes),
            sampler=agreed(self._sampler(sampler) for sampler in passes) or "",
            model=agreed(self._model(sampler) for sampler in passes) or "",
            loras=loras,
            width=width,
            height=height,
            further=tuple(different([*self._later_texts(passes, first, prompts), *notes, *self._pictures(end)])),
        )

    def _link(self, value: object) -> str:
        """The node that an input links to; "" without a link."""
        is_link = isinstance(value, list) and len(value) == 2 and isinstance(value[0], str | int)
        return str(value[0]) if is_link and str(value[0]) in self.inputs else ""  # type: ignore[index]

    @_once
    def _links(self, node: str, but: re.Pattern[str] | None = None) -> list[str]:
        inputs = self.inputs[node]
        return different(self._link(inputs[name]) for name in inputs if not (but and but.search(name)))

    def _before(self, start: str, links: Callable[[str], Iterable[str]]) -> list[str]:
        """``start`` and all nodes before it by ``links``, earlier nodes first."""
        done, waiting, seen = list[str](), [(start, False)], set[str]()
        while waiting:
            node, is_done = waiting.pop()
            if is_done:
                done.append(node)
            elif node not in seen:
                seen.add(node)
                waiting += [(node, True), *((link, False) for link in links(node))]
        return done

    @_once
    def _passes(self, end: str) -> list[str]:
        """The samplers that lead to a node, first pass first."""
        return [node for node in self._before(end, self._picture_links) if self._draws(node)]

    def _picture_links(self, node: str) -> list[str]:
        chosen = self._chosen(node)
        return [chosen] if chosen else self._links(node, _NO_PICTURE)

    @_once
    def _draws(self, node: str) -> bool:
        inputs = self.inputs[node]
        usual = {"sampler_name", "steps", "cfg"} <= set(inputs) and not re.search("loader|preset", self.kinds[node], 2)
        piped = re.search("sampler", self.kinds[node], re.IGNORECASE) and any(name in inputs for name in _PIPES)
        parts = self.kinds[node].startswith(("SamplerCustom", "WanVideoSampler"))
        seeded = "positive" in inputs and ("seed" in inputs or "noise_seed" in inputs)
        return bool(usual or piped or parts or (seeded and self._link(inputs["positive"])))

    def _setting(self, node: str, name: str) -> Any:
        """The value of a sampler's setting, from itself or its parts (noise, guider, schedule, pipe)."""
        for part in [node, *self._parts(node)]:
            if (value := self.inputs[part].get(name)) is not None:
                return self._constant(value, name)
        return None

    def _parts(self, node: str) -> list[str]:
        names = ("noise", "guider", "sampler", "sigmas", *_PIPES)
        *parts, _ = self._before(node, lambda part: filter(None, (self._link(self.inputs[part].get(n)) for n in names)))
        return parts

    def _constant(self, value: Any, name: str) -> Any:
        """The value of an input, also through nodes with a single value, or with one of the same name; else None."""
        names = ("seed", "noise_seed") if "seed" in name else (name,)
        for _ in self.inputs:
            if not (link := self._link(value)):
                return value if isinstance(value, str | int | float) else None
            inputs = {
                key: input_value for key, input_value in self.inputs[link].items() if not key.startswith("control")
            }
            if re.search("random|aspect|ratio|math", self.kinds[link], re.IGNORECASE):
                return None
            single = next(iter(inputs.values())) if len(inputs) == 1 else None
            value = next((inputs[key] for key in names if key in inputs), single)
        return None

    def _seed(self, node: str) -> int | None:
        seeds = (whole(self._setting(node, name), LARGEST_SEED) for name in ("seed", "noise_seed"))
        return next((seed for seed in seeds if seed is not None), None)

    def _sampler(self, node: str) -> str:
        name, schedule = (short_name(self._setting(node, name)) for name in ("sampler_name", "scheduler"))
        return with_schedule(name, schedule)

    def _guidance(self, node: str) -> float | None:
        """The guidance input of models distilled with guidance (FLUX), whose cfg is 1."""
        links = (self._link(self.inputs[part].get(name)) for part in [node, *self._parts(node)]
                 for name in ("positive", "conditioning"))  # fmt: skip
        sources = (source for link in links if link for source in self._before(link, self._links))
        values = (guidance(self._constant(self.inputs[source].get("guidance"), "guidance")) for source in sources)
        cfg = guidance(self._setting(node, "cfg"))
        return choose_guidance(cfg, next((value for value in values if value is not None), None))

    def _model(self, node: str) -> str:
        """The model, or all that were merged."""
        found = []
        for inputs in (self.inputs[loader] for loader in self._before(node, self._model_links)):
            names = [self._constant(inputs[name], name) for name in _MODEL_NAMES if name in inputs]
            found += [name for name in map(short_name, (*names, inputs.get("model"))) if name][:1]
        return short_name(" + ".join(different(found)))

    @_once
    def _find_own_loras(self, loader: str) -> tuple[str, ...]:
        inputs = self.inputs[loader]
        table = {name: self._constant(value, name) if self._link(value) else value
                 for name, value in inputs.items() if _LORA_INPUT.search(name)}  # fmt: skip
        texts = (self._constant(inputs.get(name), name) for name in ("populated_text", "text", "prompt"))
        return find_loras(table, [text for text in texts if isinstance(text, str)][:1])

    def _model_links(self, node: str) -> list[str]:
        if _SWITCH.search(self.kinds[node]):
            return [chosen] if (chosen := self._chosen(node)) else []
        inputs = self.inputs[node]
        model_names = [name for name in inputs if len(inputs) == 1 or _MODEL.fullmatch(name)]
        has_model = any("model" in name and self._link(inputs[name]) for name in model_names)
        return [
            link for name in (*model_names, *(() if has_model else _PIPES)) if (link := self._link(inputs.get(name)))
        ]

    def _size(self, end: str) -> tuple[int | None, int | None]:
        empty = [node for node in self._before(end, self._links) if re.match("Empty.{0,40}Latent", self.kinds[node])]
        sides = [self._constant(self.inputs[node].get(name), name) for node in empty for name in ("width", "height")]
        sizes = [size for side in sides if (size := whole(side, LARGEST_SIDE))]
        return (sizes[0], sizes[1]) if len(empty) == 1 and len(sizes) == 2 else (None, None)

    # Texts

    def _texts(self, node: str, role: Role) -> list[str]:
        """The distinct texts that guide a sampler, or that it avoids."""
        for part in [node, *self._parts(node)]:
            for name in (role, "conditioning" if role == "positive" else "", "text_embeds"):
                if (value := self.inputs[part].get(name)) is not None:
                    loaders = self._before(node, self._model_links) if role == "positive" else []
                    couple = [self._link(value) for loader in loaders for name, value in self.inputs[loader].items()
                              if name.startswith("cond_")]  # fmt: skip
                    texts = [*self._conditioned(value, role), *self._merge_conditionings(couple, role)]
                    return different(map(clean_line, texts))
        return []

    def _conditioned(self, value: Any, role: Role) -> list[str]:
        """The texts of a conditioning, or of a node that loads and encodes at once."""
        if not (node := self._link(value)):
            return [value] if isinstance(value, str) else []
        return self._find_conditionings(node, role)

    @_once
    def _find_conditionings(self, node: str, role: Role) -> list[str]:
        inputs = self.inputs[node]
        if "zeroout" in self.kinds[node].lower():
            return []
        is_joined = _JOINS.search(self.kinds[node]) and "clip" not in inputs  # then such inputs are parts of one text
        for names in (
            (("populated_text",),) if is_joined else ((f"{role}_prompt",), (role,), ("populated_text",), _TEXTS)
        ):
            if values := [inputs[name] for name in names if name in inputs]:
                if names == (role,):
                    return self._conditioned(values[0], role)
                texts = [text for value in values if (text := self._text(value)).strip()]
                links = [self._link(inputs[name]) for name in inputs if name.startswith("conditioning")]
                return different([*texts, *self._merge_conditionings(links, role)])
        if chosen := self._chosen(node):
            return self._merge_conditionings([chosen], role)
        if any(_PART.fullmatch(name) and isinstance(inputs[name], str | list) for name in inputs):
            return [self._made_text(node)]
        return self._merge_conditionings(self._links(node, _NO_CONDITIONING[role]), role)

    def _merge_conditionings(self, links: Iterable[str], role: Role) -> list[str]:
        return different(text for link in filter(None, links) for text in self._find_conditionings(link, role))

    def _text(self, value: Any) -> str:
        """The text of an input, computed through the nodes before it; _Unclear if their values do not determine it."""
        if not (node := self._link(value)):
            if isinstance(value, list):
                raise _Unclear("its workflow leads to a node that is missing")
            return value if isinstance(value, str) else ""
        return self._made_text(node)

    @_once
    def _made_text(self, node: str) -> str:
        inputs, kind = self.inputs[node], self.kinds[node]
        if isinstance(populated := inputs.get("populated_text"), str) and populated.strip():
            return populated
        if chosen := self._chosen(node):
            return self._made_text(chosen)
        names = [name for name in sorted(inputs, key=_sort_key) if _PART.fullmatch(name)]
        parts = {name: self._text(inputs[name]) for name in names[: whole(inputs.get("inputcount"), 99)]}
        joined = self._join_parts(node, parts) if len(parts) != 1 or _JOINS.search(kind) else None
        replaced = self._replaced(node, parts)
        text: str | None = replaced if replaced is not None else joined
        texts = different(parts.values()) or [value for value in inputs.values() if value == ""][:1]
        if text is None and len(texts) == 1:
            made = _CHANGES.search(kind) and (not re.search("wildcard|dp", kind, 2) or _WILD.search(texts[0]))
            picked = ("\n" in texts[0] and _PICKS.search(kind)) or len(self._text_outputs.get(node, ())) > 1
            text = texts[0] if not (made or picked) and (_PLAIN.search(kind) or len(inputs) == 1) else None
        if text is None and len(inputs) == 1 and not parts:
            text = self._text(next(iter(inputs.values())))
        if text is None or len(text) > _LONGEST_MADE:
            written = [*filter(None, texts)] or different(value for value in inputs.values() if isinstance(value, str))
            found = "; ".join(quote_excerpt(text) for text in written[:3]) or "no text"
            raise _Unclear(f"its workflow makes the prompt by {kind or 'a node'}, which does not record it ({found})")
        return text

    def _join_parts(self, node: str, parts: Mapping[str, str]) -> str | None:
        inputs, kind = self.inputs[node], self.kinds[node]
        if kind.startswith("StringFunction"):
            tidy = ", " if inputs.get("tidy_tags") == "yes" else ""
            return tidy.join(filter(None, parts.values())) if inputs.get("action", "append") == "append" else None
        if not _JOINS.search(kind):
            return None
        given = next((inputs[name] for name in ("delimiter", "separator", "delim") if name in inputs), "")
        between = self._text(given).replace("\\n", "\n")
        between = {"space": " ", "comma": ", ", "none": "", "newline": "\n"}.get(between, between)
        return between.join(filter(None, parts.values()))

    def _replaced(self, node: str, parts: Mapping[str, str]) -> str | None:
        inputs, kind = self.inputs[node], self.kinds[node]
        if kind.startswith("StringFunction") and inputs.get("action") == "replace":
            text, old, new = (parts.get(f"text_{x}", "") for x in "abc")
            return None if old.startswith("/") else text.replace(old, new) if old else text  # a pattern of JavaScript
        if "replace" not in kind.lower() or "regex" in kind.lower():
            return None
        replaced = next((parts[name] for name in ("string", "text", "prompt") if name in parts), "")
        for place in ("", "1", "2", "3"):
            old, new = (self._text(inputs.get(f"{word}{place}", "")) for word in ("find", "replace"))
            replaced = replaced.replace(old, new) if old else replaced
        return replaced

    @_once
    def _chosen(self, node: str) -> str:
        """The node that a switch selects; "" if the node is no switch or does not tell."""
        inputs = self.inputs[node]
        if re.match("show|preview|display", self.kinds[node], re.IGNORECASE):
            return self._link(inputs.get("text"))
        if not _SWITCH.search(self.kinds[node]):
            return ""
        choices = [(name, self._constant(inputs[name], name)) for name in inputs if not _PART.fullmatch(name)]
        any_inputs = sorted(name for name in inputs if re.fullmatch(r"(?:any|ctx)_\d\d?", name))
        if any_inputs and (link := self._link(inputs[any_inputs[0]])):
            return link
        for name, choice in [*choices, ("Input", inputs.get("Input"))]:
            if isinstance(choice, bool):
                names = ["on_true", "if_true", "true"] if choice else ["on_false", "if_false", "false"]
            elif isinstance(choice, int) and name.lower() in ("select", "index", "input"):
                names = [name for name in inputs if re.fullmatch(rf"[A-Za-z]+_?{choice}", name)]
            else:
                continue
            if links := different(self._link(inputs.get(input_name)) for input_name in names):
                return links[0]
        return ""

    def _later_texts(self, passes: list[str], first: list[str], prompts: list[str]) -> Iterator[str]:
        """Texts of later passes that the first one does not have."""
        known = {*prompts, *self._safe_texts(first, "negative")}
        roles: dict[Role, str] = {"positive": "prompt", "negative": "negative prompt"}
        for sampler in passes:
            for role, role_name in roles.items() if sampler not in first else ():
                new_texts = [text for text in self._safe_texts([sampler], role) if text not in known]
                yield from (
                    f"{role_name} of a later pass ({self.kinds[sampler]}) {quote_excerpt(text)}" for text in new_texts
                )
            if isinstance(wildcard := self.inputs[sampler].get("wildcard"), str) and wildcard.strip():
                yield f"wildcard of {self.kinds[sampler]} {quote_excerpt(clean_line(wildcard))}"

    def _safe_texts(self, nodes: list[str], role: Role) -> list[str]:
        try:
            return different(text for node in nodes for text in self._texts(node, role))
        except _Unclear as error:
            return [str(error)]

    def _pictures(self, end: str) -> Iterator[str]:
        """Start pictures and guide pictures."""
        start = set(self._before(end, self._picture_links))
        for node in self._before(end, self._links):
            kind = self.kinds[node].lower()
            is_latent = re.search("vae.?encode|load.?latent", kind) and not self._passes(node)
            if is_latent or re.search("load.{0,20}image|image.{0,20}load", kind):
                yield "a start picture" if node in start else "a picture that guided it"


def _sort_key(name: str) -> tuple[int, str, int]:
    """Prefixes first, suffixes last; part 10 after part 9."""
    lower = name.lower()
    place = lower.startswith(("suffix", "append", "after")) - lower.startswith(("prefix", "prepend", "before"))
    word = lower.rstrip("0123456789")
    return place, word, int(lower[len(word) :][:9] or 0)
