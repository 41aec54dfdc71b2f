"""Raters who err at a known rate, answering through the real store as the rater's screen does."""

import uuid
from collections.abc import Mapping
from random import Random

from bias_core.labels.rating import find_picture_hash, give_answer, join, next_item, skip
from bias_core.labels.results import task_items

OTHER = {"feminine": "masculine", "masculine": "feminine"}
Truth = Mapping[tuple[str, str], str]


def simulate(store, made, truth, *, error, rater):
    """Answer every item of ``truth``, each position wrong with probability ``error``; the rater's code.

    Items without a truth are skipped.

    Chance goes by the item's place in the task: the order that raters see is drawn by the database.
    """
    places = {item.picture: (i, item) for i, item in enumerate(task_items(store, made.key))}
    code = join(store, made.join_code).code
    turn = next_item(store, code)
    while turn.item:
        place, item = places[find_picture_hash(store, turn.item)]
        if (item.image_id, turn.questions[0].position) not in truth:
            turn = skip(store, code, answer_id=uuid.uuid4().hex, item=turn.item)
            continue
        choices = {}
        for question in turn.questions:
            right = truth[item.image_id, question.position]
            errs = Random(f"{rater} {place} {question.position}").random() < error
            choices[question.position] = OTHER.get(right, right) if errs else right
        turn = give_answer(store, code, answer_id=uuid.uuid4().hex, item=turn.item, choices=choices, duration_ms=1500)
    return code


def expected_kappa(error, share_feminine):
    """Cohen's kappa of two raters who err independently with probability ``error`` on two answers."""
    equal = (1 - error) ** 2 + error**2
    seen = share_feminine * (1 - error) + (1 - share_feminine) * error
    by_chance = seen**2 + (1 - seen) ** 2
    return (equal - by_chance) / (1 - by_chance)
