// What `train` tells of its command line beside its options.
#pragma once

#include "texts/program_text.hpp"
#include "trainer/run/option_examples.hpp"

namespace ddprun::trainer {

inline constexpr const char* kShortHelp =
    R"(Usage: [ddprun [OPTIONS OF DDPRUN]] train [OPTIONS]

Trains a small network on CPUs or GPUs. The same command continues a run that
was stopped, if it names the run's folder: --out=FOLDER.

  ddprun --nproc-per-node=2 train                two workers, generated pictures
  ddprun --nproc-per-node=2 train --data=FOLDER  files of MNIST, CIFAR-10, JPEG
  ddprun train --eval --resume-from=FOLDER       figures of its best checkpoint

  --model=NAME           lenet, alexnet, resnet18, unet16, unet-resnet34,
                         unet-resnet101, textclf (default: lenet)
  --data=FOLDER          images, masks or texts (default: generated)
  --epochs=N             passes over the training set (default: 5)
  --max-steps=N          stop after N steps
  --batch=N              samples of one shard (default: 64)
  --optimizer=sgd|adamw  update rule (default: sgd, of textclf adamw)
  --lr=X                 learning rate
  --precision=FORMAT     number format of the computation on GPUs
  --seed=N               of weights, order and draws
  --out=FOLDER           checkpoints and metrics.jsonl (default: a new folder in
                         ddprun-out)
  --keep=N|all           checkpoints to keep beside the best one

train --help lists all options, --help=optimizer one group; --man explains them.
)";

inline ProgramText program_text() {
  return {
      .name = "train",
      .page = "ddprun-train",
      .purpose = "trains a small network with distributed data parallelism on CPUs or GPUs",
      .synopsis = "[ddprun [OPTIONS OF DDPRUN]] train [OPTIONS]",
      .short_help = kShortHelp,
      .description =
          "train is the trainer that comes with ddprun: it trains a small network with distributed "
          "data parallelism on CPUs or GPUs.\n"
          "A global batch is always V shards of b samples. The number of workers only decides "
          "which worker computes which shard: the same V and b give the same weights, to the last "
          "bit, with any number of workers, with accumulation, and across restarts; on GPUs with "
          "--exact.",
      .examples =
          {{"ddprun train", "one worker, on generated pictures"},
           {"ddprun --nproc-per-node=2 train", "two workers"},
           {"ddprun --nproc-per-node=2 --max-restarts=3 train --data FOLDER --out runs/first",
            "on the files of MNIST, Fashion-MNIST or CIFAR-10 in FOLDER; the group is started "
            "again after "
            "a failure"},
           {"ddprun train --eval --resume-from=runs/first --data FOLDER",
            "the figures of its best checkpoint, for each class"}},
      .option_examples = option_examples(),
      .sections = {{.title = "Checkpoints and restarts",
                    .text =
                        "A worker group that ddprun starts again continues from its newest "
                        "intact checkpoint.\n"
                        "Without --out, a new run has a new folder in ddprun-out, named by date "
                        "and time or by ddprun's --rdzv-id, and starts fresh; the link latest "
                        "leads to the newest. With --out DIR, the directory is the run: "
                        "the same DIR continues where it stopped, with any number of workers. "
                        "With several machines, DIR must be in a folder that all "
                        "of them share.\n"
                        "SIGTERM and SIGINT end a run after a step, with a checkpoint of it, "
                        "so the same command with --out goes on there. A second signal ends "
                        "it at once."},
                   {.title = "Exit status",
                    .terms = {{"0", "Done"},
                              {"1", "Failed"},
                              {"2", "Unusable options, data or checkpoint"},
                              {"75", "Another worker was lost"},
                              {"128+N", "Stopped by signal N"}}}},
      .see_also = "ddprun(1)",
      .topics = {{"What to train", "task"}},
      .launcher = "ddprun"};
}

}  // namespace ddprun::trainer
