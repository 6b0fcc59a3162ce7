"""The parts of scripts/gpu-check under ddprun: a worker is killed, or two workers train together."""

import contextlib
import os
import pathlib
import re
import signal
import time

from gpu_part import Failed, Skipped, TimeUp, distance, final, lines_of, part


def worker_of(out, local_rank):
    """The process id of the worker with this --out and local rank, or None. (Launcher and agent have no LOCAL_RANK.)"""
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
            settings = (process / "environ").read_bytes().split(b"\0")
            if f"--out={out}".encode() in words and f"LOCAL_RANK={local_rank}".encode() in settings:
                return int(process.name)
        except OSError:
            continue
    return None


def killed_run(check, workers, options, **environment):
    """Runs a job and kills its last worker after the first checkpoint. Returns the job's folder and final line."""
    out = check.new_folder()
    job = check.start([check.ddprun, f"--nproc-per-node={workers}", "--max-restarts=1", check.train, "--device=cuda",
                       f"--out={out}", *options], **environment)
    worker = None
    killed = False
    while job.poll() is None and time.monotonic() < check.end:
        if worker is None:
            worker = worker_of(out, workers - 1)
        elif not killed and (out / "latest").exists():
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker, signal.SIGKILL)
            killed = True
        time.sleep(0.002)
    if job.poll() is None:
        raise TimeUp(f"the time was up {'after the worker was killed' if killed else 'before the first checkpoint'}")
    if job.returncode != 0:
        raise Failed(f"exit code {job.returncode} of ddprun; see the log")
    ended = final(lines_of(out))
    if not killed or ended["restarts"] < 1:
        raise Skipped("the run was over before its worker could be killed")
    return out, ended


@part(60)
def restart(check):
    """A run with a killed worker ends with the same bits; the CPU continues from the GPU's checkpoint."""
    steps = check.small(2000, 40)
    options = (check.data(), "--epochs=1000", f"--batch={check.small(32, 8)}", f"--checkpoint-every={check.small(100, 4)}")
    undisturbed = final(check.train_run(*options, f"--max-steps={steps}"))
    out, ended = killed_run(check, 1, (f"--max-steps={steps}", *options))
    if ended["weights"] != undisturbed["weights"]:
        raise Failed(f"weights {ended['weights']} instead of {undisturbed['weights']}")
    on_cpu = final(check.train_run(*options, f"--max-steps={steps + 5}", device="cpu", out=out))
    if on_cpu["steps"] != steps + 5:
        raise Failed(f"the CPU continued to step {on_cpu['steps']} instead of {steps + 5}")
    return f"weights {ended['weights']} with and without a kill; the CPU continued from step {steps}"


def gpu_count(check):
    if check.emulated:
        return 1
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return len([entry for entry in visible.split(",") if entry.strip()])
    return len(re.findall(r"^GPU ", check.nvidia_smi("-L"), re.MULTILINE))


# Parts of train's messages: NCCL refuses to connect the ranks; NCCL does not finish connecting them.
NOT_CONNECTED = ("ncclCommInitRankConfig", "NCCL has not connected all ranks")


class TwoWorkers:
    """Options and words for two workers: with a GPU for each, or sharing one."""

    def __init__(self, check):
        self.check = check
        self.shares = gpu_count(check) < 2
        self.options = ("--share-gpu", "--rendezvous-timeout=15s") if self.shares else ()
        self.how = "sharing a GPU" if self.shares else "a GPU for each"
        self.environment = {"DDPRUN_EMULATED_GPUS": "1"}

    def final(self, count, *options):
        launch = (self.check.ddprun, f"--nproc-per-node={count}")
        return final(self.check.train_run(*self.options, *options, launch=launch, **self.environment))

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if not self.shares or not kind or not issubclass(kind, Failed):
            return
        refused = [line for line in self.check.log.read_text().splitlines() if any(word in line for word in NOT_CONNECTED)]
        if refused:
            raise Skipped(f"NCCL does not connect workers that share a GPU: {refused[0]}") from None


@part(90)
def ranks(check):
    """Two workers over NCCL, on two GPUs or sharing one. With --exact they end with the bits of one worker, also if an overflow
    on one of them skips a step on both. Without --exact the loss is about the same."""
    options = (check.data(), f"--max-steps={check.small(10, 4)}", f"--batch={check.small(32, 8)}", "--shards=4",
               "--checkpoint-every=off")
    overflow = ("--exact", "--precision=fp16", "--inject-overflow-at=3")
    with TwoWorkers(check) as workers:
        one, of_one = workers.final(1, *options, "--exact"), workers.final(1, *options, *overflow)
        two, of_two = workers.final(2, *options, "--exact"), workers.final(2, *options, *overflow)
        inexact = workers.final(2, *options)
    if one["weights"] != two["weights"]:
        raise Failed(f"weights {two['weights']} instead of {one['weights']}")
    if of_two["skipped"] < 1 or (of_one["weights"], of_one["skipped"]) != (of_two["weights"], of_two["skipped"]):
        raise Failed(f"an overflow on one of 2 workers: {of_two['skipped']} steps skipped, weights {of_two['weights']}; of 1 "
                     f"worker: {of_one['skipped']}, {of_one['weights']}")
    far = distance([inexact["train_loss"]], [one["train_loss"]])
    if far > 1e-3:
        raise Failed(f"without --exact the loss of 2 workers differs from that of 1 by {far:.1e}")
    return (f"weights {one['weights']} of 1 and 2 workers, {workers.how}; {of_two['skipped']} step skipped by both with an "
            f"overflow on one; without --exact the loss differs by {far:.1e}")


@part(60)
def kill(check):
    """One of two workers is killed. The other goes on (it aborts NCCL in the middle of a sum, and makes a new communicator), and
    --exact gives the bits of one worker without a kill."""
    options = (check.data(), "--epochs=1000", f"--batch={check.small(32, 8)}", "--shards=2", "--exact",
               f"--max-steps={check.small(400, 40)}", f"--checkpoint-every={check.small(20, 4)}")
    with TwoWorkers(check) as workers:
        undisturbed = workers.final(1, *options)
        _, ended = killed_run(check, 2, (*workers.options, *options), **workers.environment)
    if ended["weights"] != undisturbed["weights"]:
        raise Failed(f"weights {ended['weights']} after the restart instead of {undisturbed['weights']}")
    # A kill between two rounds, or while data is loaded, leaves no survivor with a state.
    how = "the other went on" if "of 2 workers go on after step" in check.log.read_text(errors="replace") else "both were restarted"
    return f"weights {ended['weights']} of 1 worker, and of 2 workers ({workers.how}), one of them killed: {how}"
