"""A paper's protocol: what it says of each setting of its study, and a run's settings as the paper had them.

A design (``protocol:``) and ``assets/studies/protocols.yaml`` (what the designs of a paper share) say by name of a
setting, of an option of the study's kind, or of one of :data:`CIRCUMSTANCES`: the ``value`` as it is given here, what
the paper ``says`` in words, ``also`` other values that are the paper's (with * for anything), and what this study has
``here`` in its place whatever is asked for.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

from bias_core.errors import InvalidInput, StorageError
from bias_core.models.catalogue import split_revision
from bias_core.studies.kit.designs import study_of, typed_options
from bias_core.studies.kit.readers import READER_SETTINGS
from bias_core.studies.kit.setting_fields import Options, given_settings, option_values, settings_of
from bias_core.studies.kit.types import Design, StudySettings

NOT_PRINTED = "not printed"
CHECKLIST = "protocol"  # key of the table that has a run beside its paper's protocol
_READING = {*READER_SETTINGS, "encoders", "language_model"}
_CALIBRATION = "calibration-"  # how the models of that world are called
CIRCUMSTANCES = ("revision", "wording", "pictures", "images_per_prompt", "people")
"""What a paper says that is neither a setting nor an option of its study."""


@dataclass(frozen=True, kw_only=True)
class ProtocolItem:
    """What a paper says of one thing."""

    value: Any = None  # as a setting or option has it, or the number of pictures; None where it prints none
    says: str = ""  # in words; "" for the value
    also: tuple[str, ...] = ()  # patterns of other values that are the paper's
    here: str = ""  # what the study has in its place whatever is asked for, "" where it can be met

    @property
    def is_printed(self) -> bool:
        """Whether the paper says anything of it."""
        return self.value is not None or bool(self.here) or not self.says.startswith(NOT_PRINTED)

    @property
    def words(self) -> str:
        """What the paper says."""
        listed = ", ".join(map(str, self.value)) if isinstance(self.value, (list, tuple)) else self.value
        number = f"{listed:,}" if isinstance(listed, int) and not isinstance(listed, bool) else f"{listed}"
        return self.says or number

    def is_met_by(self, value: Any) -> bool:
        """Whether a value is the paper's."""
        if isinstance(self.value, (list, tuple)):
            return sorted(map(str, self.value)) == sorted(map(str, value))
        if value == self.value:
            return True
        names = {str(value), split_revision(str(value))[0]}
        return any(fnmatchcase(name, pattern) for name in names for pattern in (str(self.value), *self.also))


def protocol_of(design: Design) -> dict[str, ProtocolItem]:
    """The design's protocol by name, {} where it follows no paper; StorageError for a name that is none."""
    names = {*CIRCUMSTANCES, *settings_of(StudySettings), *settings_of(study_of(design).options)}
    if unknown := sorted(design.protocol.keys() - names):
        raise StorageError(f"{design.name}: its protocol names no setting or option of it: {', '.join(unknown)}")
    try:
        return {
            name: ProtocolItem(**{**item, "also": tuple(item.get("also", ()))})
            for name, item in design.protocol.items()
        }
    except (AttributeError, TypeError) as error:
        raise StorageError(f"{design.name}: an item of a protocol has value, says, also and here ({error})") from error


def with_protocol(design: Design, settings: StudySettings, given: Collection[str] | None = None) -> StudySettings:
    """The settings with the paper's in place of those that nobody gave, where they ask for its protocol.

    The readers of photographs that a paper names are not asked to read the calibration world, which has its own.
    ``given`` are the names that somebody gave; without it, those that the settings were made with. InvalidInput
    where the study follows no paper.

    >>> from bias_core.studies.kit.designs import find_design
    >>> settings = StudySettings(protocol="paper", guidance_scale=5.0)
    >>> filled = with_protocol(find_design("t2iat-tests"), settings)
    >>> filled.model, filled.num_inference_steps, filled.guidance_scale, filled.size
    ('stable-diffusion-2-1', 50, 5.0, '512x512')
    """
    if not settings.protocol:
        return settings
    items = {name: item.value for name, item in protocol_of(design).items() if item.value is not None}
    if not items:
        raise InvalidInput(f"{design.name} follows no paper's protocol; leave protocol out, or choose a paper's study")
    own = given_settings(settings) if given is None else given
    model = settings.model if "model" in own else items.get("model", settings.model)
    if model.startswith(_CALIBRATION) and not settings.images:
        items = {name: value for name, value in items.items() if name not in _READING}
    values = {name: items[name] for name in settings_of(StudySettings) if name in items and name not in own}
    options = {name: items[name] for name in settings_of(study_of(design).options) if name in items}
    given_options = _given_options(design, settings.options)
    return replace(settings, **values, options={**options, **given_options}, protocol="")


def _given_options(design: Design, options: Any) -> dict[str, Any]:
    if not isinstance(options, Options):
        return option_values(options)
    usual = option_values(typed_options(design, {}))
    return {name: value for name, value in option_values(options).items() if value != usual[name]}


def papers_readers(design: Design) -> dict[str, str]:
    """The readers that the paper names, by the setting or option that chooses them."""
    items = protocol_of(design) if design.protocol else {}
    return {name: items[name].value for name in READER_SETTINGS if name in items and items[name].value is not None}
