"""Text classification: TF-IDF over words and word runs, and a linear classifier trained in epochs."""

from __future__ import annotations

import io
import json
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import SGDClassifier
from sklearn.metrics import log_loss
from threadpoolctl import threadpool_limits

from .datasets.left_out import all_but, describe_left_out
from .errors import JobError, no_such_column
from .labels import Labels, class_metrics, class_weights, present, read_labels, split_by_class
from .protocol import warn_about_data
from .run import Outcome, Run
from .schemas import class_schema, example_text, instances_schema, predictions_schema, with_text_input, with_text_output
from .tabular.preparation import EXAMPLES, rows_with, target_column, with_written_classes
from .wording import counted
from .words import WORDS_VERSION, has_new_words, words_of

LEARNS_CLASSES = True
_STATE = "state.npz"
# If a larger share of the held-out texts has no known word, we warn: the metrics then say little about the
# other texts.
MAX_UNKNOWN_SHARE = 0.2


def train(run: Run) -> Outcome:
    """Predicts a text's class and the probability of each class. The loss is the logarithmic loss."""
    job = run.job
    column = _text_column(run.table, job.param("text_column"))
    others = run.table.drop_columns([column])
    if others.num_columns == 0:
        raise JobError("The dataset has no class column besides the text.", code="no_features")
    target = target_column(others, job.param("target_column"), ("label", "target"))
    left_out = all_but(run.table.column_names, [column, target], f"the model learns from '{column}' alone")
    left_out_report = describe_left_out(left_out)
    table = rows_with(rows_with(with_written_classes(run, target), target), column)
    texts = table.column(column).to_pylist()
    labels = read_labels(table.column(target), target)
    learn, check = split_by_class(labels, job.param("val_set_size"), job.param("seed"))

    longest = job.param("ngram_max")
    # If both versions split the texts alike, nodes that run earlier versions can serve the model too.
    version = WORDS_VERSION if any(map(has_new_words, texts)) else 1
    if version > 1:
        # Checkpoints from earlier versions count different words.
        run.loop.require(f"words {version}")
    vectorizer = TfidfVectorizer(
        analyzer=partial(_words, longest=longest, version=version),
        min_df=job.param("min_df"),
        max_features=job.param("max_features"),
        sublinear_tf=True,
    )
    try:
        vectorizer.fit([texts[row] for row in learn])
    except ValueError as error:
        raise JobError(
            f"The texts in '{column}' contain no words to learn from.", code="no_features", column=column
        ) from error
    x = vectorizer.transform(texts)
    _report_without_words(run.table, column, texts, np.diff(x.indptr) == 0, check)
    with threadpool_limits(job.threads):
        learner = _fit(run, labels, x[learn], labels.codes[learn], x[check], labels.codes[check], learn)

    examples = [example_text(texts[row]) for row in check[:EXAMPLES]]
    vocabulary = [str(word) for word in vectorizer.get_feature_names_out()]
    return Outcome(
        task="text_classification",
        target=target,
        metrics=class_metrics(labels, check, learner.predict_proba(x[check])),
        input_schema=with_text_input(instances_schema({column: {"type": "string"}}, [column])),
        output_schema=with_text_output(predictions_schema(class_schema(labels.classes)), labels.classes),
        example_input={"instances": [{column: text} for text in examples]},
        example_output={"predictions": present(labels, learner.predict_proba(vectorizer.transform(examples)))},
        model_file="model.npz",
        files={
            "model.npz": _npz(idf=vectorizer.idf_, coef=learner.coef_, intercept=learner.intercept_),
            "vocabulary.json": json.dumps(vocabulary, ensure_ascii=False).encode(),
        },
        left_out=left_out_report,
        extra={"classes": labels.classes, "text": _described(column, longest, version)},
    )


def _words(text: str, longest: int, version: int) -> list[str]:
    return list(words_of(text, longest, version))


def _described(column: str, longest: int, version: int) -> dict[str, Any] | list[Any]:
    """Returns the manifest's `text`. From the second version of word splitting on, it is a list. Servers that
    know only the first version fail to load a list, and another node serves the model.
    """
    return {"column": column, "ngram_max": longest} if version == 1 else [column, longest, version]


def _report_without_words(
    written: pa.Table, column: str, texts: list[str], is_empty: np.ndarray, check: np.ndarray
) -> None:
    """Warns about texts without words, and about held-out texts that share no word with the training texts.
    `is_empty` marks the texts whose words are all unknown, and `written` is the whole dataset, for row
    numbers.
    """

    def row_of(text: str) -> int:
        return int(pc.index(written.column(column), text).as_py()) + 1

    wordless = [texts[row] for row in np.flatnonzero(is_empty) if next(words_of(texts[row], 1), None) is None]
    if wordless:
        row = row_of(wordless[0])
        warn_about_data(
            f"{counted(len(wordless), 'text')} {'has' if len(wordless) == 1 else 'have'} no word or symbol to learn "
            f"from, such as '{wordless[0][:60]}' (row {row}): the model gives all such texts the same prediction.",
            column=column,
            count=len(wordless),
            row=row,
        )
    unknown = [texts[row] for row in check[is_empty[check]]]
    if len(unknown) > MAX_UNKNOWN_SHARE * len(check):
        row = row_of(unknown[0])
        warn_about_data(
            f"{len(unknown):,} of {counted(len(check), 'held-out text')} have no word in common with the training "
            f"texts, such as row {row}: the model gives all such texts the same prediction. Add rows, or train "
            "text-classification-finetune.",
            column=column,
            count=len(unknown),
            row=row,
        )


def _text_column(table: pa.Table, named: str) -> str:
    names = table.column_names
    if named and named not in names:
        raise no_such_column(named, names, "text_column")
    texts = [name for name in names if pa.types.is_string(table.column(name).type)]
    if named:
        if named not in texts:
            raise JobError(f"Column '{named}' does not contain text.", code="not_a_text", column=named)
        return named
    if not texts:
        raise JobError("The dataset has no column with text.", code="not_a_text")
    if "text" in texts:
        return "text"
    return max(texts, key=lambda name: pc.mean(pc.utf8_length(table.column(name))).as_py() or 0)


def _fit(run: Run, labels: Labels, x: Any, y: np.ndarray, x_check: Any, y_check: np.ndarray, rows: np.ndarray) -> Any:
    """Trains, or resumes training, and returns the classifier of the best epoch."""
    job, loop = run.job, run.loop
    weights = class_weights(labels, rows, job.param("class_weight"))
    weight = None if weights is None else weights[y]
    classes = np.arange(len(labels.classes))
    learner = SGDClassifier(
        loss="log_loss",
        alpha=job.param("alpha"),
        learning_rate="constant",
        eta0=job.param("learning_rate"),
        shuffle=False,
    )
    best: dict[str, np.ndarray] = {}
    parts = loop.restore()
    if parts:
        state = dict(np.load(io.BytesIO(parts[_STATE])))
        best = {name[5:]: value for name, value in state.items() if name.startswith("best_")}
        learner.classes_ = classes
        learner.coef_, learner.intercept_, learner.t_ = state["coef"], state["intercept"], float(state["t"])
    loop.begin()
    while not loop.is_over:
        # The order of the texts depends on the seed and the epoch alone, so that a resumed run sees the same
        # order.
        order = np.random.default_rng([job.param("seed"), loop.epoch]).permutation(len(y))
        order_weight = None if weight is None else weight[order]
        learner.partial_fit(x[order], y[order], classes=classes, sample_weight=order_weight)
        train_loss = float(log_loss(y, learner.predict_proba(x), labels=classes))
        val_loss = float(log_loss(y_check, learner.predict_proba(x_check), labels=classes))
        if all(val_loss < entry["val_loss"] for entry in loop.history):
            best = {"coef": learner.coef_.copy(), "intercept": learner.intercept_.copy()}
        loop.done(train_loss, val_loss, partial(_state, learner, best))
    if loop.best_epoch != loop.epoch:
        learner.coef_, learner.intercept_ = best["coef"], best["intercept"]
    return learner


def _state(learner: SGDClassifier, best: dict[str, np.ndarray]) -> dict[str, bytes]:
    now = {"coef": learner.coef_, "intercept": learner.intercept_, "t": np.float64(learner.t_)}
    return {_STATE: _npz(**now, **{f"best_{name}": value for name, value in best.items()})}


def _npz(**arrays: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()
