"""What an experiment is made of, and how its tables are written."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Sample:
    """A data set, or the first samples of it. `train`, `held_out`: how many; None: all."""

    name: str
    train: int = None
    held_out: int = None


def sample(quick, name, train=None, held_out=None):
    """The tiny set of the same kind where a script only has to show that it works."""
    return Sample(f"tiny-{name}") if quick else Sample(name, train, held_out)


@dataclasses.dataclass(frozen=True)
class Row:
    """One run of train."""

    name: str  # of its folder
    options: tuple
    data: Sample
    workers: int = 1
    title: str = ""
    # The run is ended by SIGKILL, with all its workers, once it has written the line of this epoch (from 0). It is then
    # started again with the same command.
    kill_after_epoch: int = None
    evaluated: bool = False  # its best checkpoint, by another run with --eval

    def command(self):
        """What distinguishes its result from another one, as text."""
        words = [f"{self.workers} x train", *self.options, f"data={self.data}"]
        if self.kill_after_epoch is not None:
            words.append(f"killed after epoch {self.kill_after_epoch}")
        return " ".join([*words, *(["--eval"] if self.evaluated else [])])


@dataclasses.dataclass(frozen=True)
class Page:
    name: str
    title: str
    minutes: int  # on two quiet cores
    rows: tuple
    reduced: str  # what was made smaller than in the post
    tables: object  # function: {name of row: its result} -> lines of Markdown
    curves: tuple = ()  # names of rows to draw
    same: tuple = ()  # groups of names: rows that have to end with the same bits


def table(heads, rows):
    """Lines of Markdown; the first column is text, the others are numbers."""
    lines = [f"| {' | '.join(heads)} |", f"| --- |{' ---: |' * (len(heads) - 1)}"]
    return [*lines, *(f"| {' | '.join(map(str, cells))} |" for cells in rows)]


MISSING = "–"


def seconds(value):
    return MISSING if value is None else f"{value:.1f} s" if value < 10 else f"{value:.0f} s"


def share(value):
    return MISSING if value is None else f"{100 * value:.2f} %"


def times(value, of):
    """How many times faster than `of`."""
    return f"{of / value:.2f}x" if value and of else MISSING


def megabytes(values):
    """Of each worker or replica."""
    return ", ".join(f"{value / 1e6:,.0f} MB" for value in values) if values else MISSING


def weights(result):
    """Enough of the hash to see that two rows have the same bits."""
    return f"`{result.final['weights'][:8]}`"


def peak(result):
    """Bytes of devices' memory: of each replica, or of each worker."""
    parallel = result.final.get("data_parallel")
    return megabytes(parallel["replica_peak_bytes"] if parallel else result.final.get("peak_device_bytes"))
