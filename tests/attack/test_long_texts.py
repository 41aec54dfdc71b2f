"""Foreign text costs every reader time in proportion to its length: twice the text, about twice the work."""

import io
import json
import time

import pytest
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from bias_core.adapters.endpoint import error_text, is_unpaid
from bias_core.adapters.readers.answers import open_thought, read_message
from bias_core.annotation.tasks import _ABOUT_LINE
from bias_core.errors import BiasCoreError
from bias_core.exchange.comfy_graph import facts_of_graph
from bias_core.exchange.file_names import facts_of_name, finished_stem, is_sheet_name, words_of
from bias_core.exchange.imports import check_name, key
from bias_core.exchange.picture_metadata import facts_of_midjourney, facts_of_text, read_metadata
from bias_core.exchange.prompt_packs import checked_prompts
from bias_core.exchange.sidecars import facts_of_part, facts_of_sidecar
from bias_core.exchange.tables import read_table
from bias_core.prompts import fill_template, fix_articles
from bias_core.search.candidates import parse_candidates
from bias_core.studies.kit.rewriting import _CALLED
from bias_core.studies.kit.rows import foreign_words
from bias_core.studies.running.arms import parse_arms
from bias_core.studies.running.identities import people_of
from bias_core.ui.messages import without_folders
from bias_core.ui.templates import render
from bias_core.world.grammar import parse

CUT = 65_536
