import zipfile

import pytest

from bias_core.annotation import schema, task_owner
from bias_core.annotation.collected import answers_frame, export_labels, given_answers, labelled_items, task_progress
from bias_core.annotation.rating import delete_my_answers, give_answer, join, next_item, picture_of, skip, undo
from bias_core.annotation.task_owner import OwnerKey, delete_task, exclude_rater, owned_task, picture_path, set_status
from bias_core.errors import InvalidInput, NotAllowed
from bias_core.labels.report import label_report, people_labels
from tests.annotation.raters import (
    CHOICES,
    FAILED,
    counts_are_right,
    every_row,
    n_rows,
    new_id,
    on_both,
    one_rater,
    open_task,
    say,
    say_all,
)

OTHER = {"left": "masculine", "right": "feminine"}


def answered(store, task, *said):
    """A rater for each of these, who says the same of every picture that is left."""
    codes = []
    for choices in said:
        codes.append(join(store, task.join_code).code)
        say_all(store, codes[-1], choices)
    return codes


def names(store, task):
    return [one.rater for one in task_progress(store, task.key).raters]


def n_left(store):
    return {name: n_rows(store, name) for name in schema.metadata.tables}


@on_both
def test_an_excluded_rater_s_answers_stay_are_marked_and_count_in_nothing(store, tmp_path):
    task = open_task(store, tmp_path, 5, n_gold=1, raters_per_item=3)
    answered(store, task, CHOICES, CHOICES, OTHER)
    before = label_report(task_progress(store, task.key), labelled_items(store, task.key))
    bad = names(store, task)[2]
    exclude_rater(store, task.key, bad)
    exclude_rater(store, task.key, bad)  # once more changes nothing
    progress = task_progress(store, task.key)
    assert (progress.n_answers, progress.n_complete, progress.n_excluded_answers) == (10, 0, 5)
    assert [one.excluded for one in progress.raters] == [False, False, True]
    assert [one.rater for one in progress.counted_raters] == names(store, task)[:2]
    assert bad not in set(people_labels(store, task.key)["rater"])
    assert bad not in {one.rater for one in given_answers(store, task.key)}
    assert {one.rater for one in given_answers(store, task.key, excluded=True)} == {bad}
    report = label_report(progress, labelled_items(store, task.key))
    alphas = [r.results.findings[0].estimate.value for r in (before, report)]
    assert alphas[0] < 0.5
    assert alphas[1] == 1.0
    assert [(one.n_images, one.n_planned) for one in (before, report)] == [(5, 5)] * 2
    assert "5 of 5 pictures have an answer, 0 have all 3." in report.results.notes
    assert not any("have an answer" in note for note in before.results.notes)
    table = report.results.tables[0].frame.set_index("rater")
    assert table.loc[bad, "excluded"]
    assert table.loc[bad, "compared"] == 0
    with zipfile.ZipFile(export_labels(store, task.key, tmp_path / "labels.zip")) as archive:
        assert bad in archive.read("excluded.csv").decode()
        assert bad not in archive.read("labels.csv").decode()
        assert bad not in archive.read("label_studio/tasks.json").decode()
        assert "raters were excluded by the owner" in archive.read("README.md").decode()
    exclude_rater(store, task.key, bad, excluded=False)
    after = task_progress(store, task.key)
    assert (after.n_answers, after.n_complete, after.n_excluded_answers) == (15, 5, 0)
    assert len(answers_frame(store, task.key, excluded=True)) == 0
    assert counts_are_right(store)


def test_others_are_asked_in_place_of_an_excluded_rater_who_is_told(store, tmp_path):
    task, code = one_rater(store, tmp_path, 3, raters_per_item=1)
    turn = say(store, code, next_item(store, code), FAILED)
    exclude_rater(store, task.key, names(store, task)[0])
    assert counts_are_right(store)
    told = next_item(store, code)
    assert (told.item, told.why_done, told.n_answered, told.can_undo) == ("", "excluded", 1, False)
    for act in (
        lambda: say(store, code, turn),
        lambda: skip(store, code, answer_id=new_id(), item=turn.item),
        lambda: undo(store, code, answer_id=new_id()),
    ):
        with pytest.raises(NotAllowed, match="ended your part"):
            act()
    answered(store, task, CHOICES)
    progress = task_progress(store, task.key)
    assert (progress.n_complete, progress.n_answers, progress.n_excluded_answers) == (3, 3, 1)
    exclude_rater(store, task.key, names(store, task)[0], excluded=False)
    assert counts_are_right(store)
    exclude_rater(store, task.key, names(store, task)[0])
    assert delete_my_answers(store, code) == 1  # always
    assert counts_are_right(store)


@on_both
def test_only_raters_of_the_task_are_excluded_by_its_owner(store, tmp_path):
    task, other = open_task(store, tmp_path, 1), open_task(store, tmp_path, 1)
    join(store, other.join_code)
    wrong = ("", "rater-000000000000", "' OR 1=1 --", "\ud800", "x" * 300, None, 7, ["a"])
    for name in (*wrong, names(store, other)[0]):
        with pytest.raises(InvalidInput, match="no rater"):
            exclude_rater(store, task.key, name)
    with pytest.raises(NotAllowed):
        exclude_rater(store, OwnerKey(task_id=other.task.id, secret="x"), names(store, other)[0])


@on_both
def test_a_deleted_task_leaves_nothing_but_how_much_it_was(store, tmp_path, monkeypatch):
    monkeypatch.setattr(task_owner, "_AT_ONCE", 2)  # in portions
    task = open_task(store, tmp_path / "a", 5, raters_per_item=3)
    kept = open_task(store, tmp_path / "a", 2, raters_per_item=3)  # shows two of the same pictures
    codes = answered(store, task, CHOICES, OTHER, CHOICES)
    undo(store, codes[0], answer_id=new_id())
    answered(store, kept, CHOICES)
    shown = {one.item.picture for one in given_answers(store, task.key)}
    also = {one.item.picture for one in given_answers(store, kept.key)}
    with pytest.raises(NotAllowed):
        delete_task(store, OwnerKey(task_id=task.task.id, secret=kept.key.secret))
    assert delete_task(store, task.key) == 14
    assert {name for name in shown if picture_path(store.pictures, name).is_file()} == also
    left = n_left(store)
    assert (left["items"], left["raters"], left["answers"], left["task_versions"]) == (2, 1, 2, 1)
    assert left["deletions"] == 3  # so that copies on a hub drop them
    for act in (owned_task, task_progress, delete_task):
        with pytest.raises(NotAllowed):
            act(store, task.key)
    for refused in (lambda: join(store, task.join_code), lambda: next_item(store, codes[0])):
        with pytest.raises(NotAllowed):
            refused()
    assert len(given_answers(store, kept.key)) == 2
    assert picture_path(store.pictures, picture_of(store, next_shown(store, kept))).is_file()
    (texts,) = every_row(store)["task_versions"]
    assert kept.task.id in texts


def next_shown(store, task):
    return next_item(store, join(store, task.join_code).code).item


def test_a_deletion_that_was_interrupted_is_finished_by_asking_again(store, tmp_path, monkeypatch):
    task, code = one_rater(store, tmp_path, 3)
    give_answer(store, code, answer_id=new_id(), item=next_item(store, code).item, choices=CHOICES)
    with monkeypatch.context() as killed:
        killed.setattr(task_owner, "remove_raters", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            delete_task(store, task.key)
    assert owned_task(store, task.key)[0].status == "closed"
    assert delete_task(store, task.key) == 1


def test_a_task_made_while_another_with_its_pictures_goes_has_them(store, tmp_path, monkeypatch):
    gone, real = open_task(store, tmp_path, 2), task_owner._keep_version

    def deleted_meanwhile(*arguments):
        for path in store.pictures.rglob("*.png"):
            path.unlink()
        real(*arguments)

    monkeypatch.setattr(task_owner, "_keep_version", deleted_meanwhile)
    made = open_task(store, tmp_path, 2)
    monkeypatch.undo()
    set_status(store, gone.key, "closed")
    assert picture_path(store.pictures, picture_of(store, next_shown(store, made))).is_file()
