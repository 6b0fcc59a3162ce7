// What other trainers call the options of `train`, for its answer to an option that it does not
// have.
#pragma once

#include <array>
#include <string_view>

#include "texts/words.hpp"

namespace ddprun::trainer {

struct OptionSynonyms {
  std::string_view here;   ///< what to type: an option, or options with their values
  std::string_view names;  ///< `a|b`, without dashes before them
};

// Names in transformers, Lightning, timm, torchvision's references, fairseq and others.
inline constexpr std::array kOptionSynonyms = {
    OptionSynonyms{"--parallel=dp --replicas=N", "dp|data-parallel|dataparallel"},
    OptionSynonyms{"--parallel=ddp", "ddp|distributed-data-parallel"},
    OptionSynonyms{"--model", "arch|network|net|model-name|model-type|backbone"},
    OptionSynonyms{"--classes", "num-classes|n-classes|nb-classes|num-labels"},
    OptionSynonyms{"--data",
                   "dataset|data-dir|data-path|data-root|dataset-dir|dataset-path|dataset-root|"
                   "data-folder|root|train-dir"},
    OptionSynonyms{"--image-shape=HxWxC", "image-size|img-size|input-size|resolution"},
    OptionSynonyms{"--crop", "crop-size|random-crop"},
    OptionSynonyms{"--flip", "hflip|horizontal-flip|random-flip"},
    OptionSynonyms{"--max-tokens",
                   "max-length|max-len|max-seq-length|max-seq-len|seq-len|seq-length"},
    OptionSynonyms{"--tokens", "tokenizer|tokenization"},
    OptionSynonyms{"--init-from", "pretrained|weights|load|load-from|init-checkpoint|finetune"},
    OptionSynonyms{"--epochs",
                   "num-epochs|max-epochs|n-epochs|n-epoch|num-epoch|nepochs|nb-epochs|"
                   "num-train-epochs"},
    OptionSynonyms{"--max-steps",
                   "steps|num-steps|n-steps|total-steps|train-steps|training-steps|num-train-steps|"
                   "max-train-steps|iters|num-iters|max-iters|iterations|max-iterations|max-iter|"
                   "max-update|max-updates"},
    OptionSynonyms{"--batch",
                   "batch-size|train-batch-size|per-device-train-batch-size|"
                   "per-device-batch-size|micro-batch-size|micro-batch|b|bs|batchsize"},
    OptionSynonyms{"--global-batch", "global-batch-size|total-batch-size"},
    OptionSynonyms{"--accumulate",
                   "gradient-accumulation-steps|grad-accum|grad-accum-steps|accum-steps|accum-iter|"
                   "accumulation-steps|accumulate-grad-batches|gradient-accumulation|update-freq"},
    OptionSynonyms{"--optimizer", "opt|optim"},
    OptionSynonyms{"--optimizer=adamw", "adam|adamw"},
    OptionSynonyms{"--optimizer=sgd", "sgd"},
    OptionSynonyms{"--lr", "learning-rate|base-lr|max-lr|initial-lr"},
    OptionSynonyms{"--betas=B1,B2", "beta1|beta2|adam-beta1|adam-beta2|adam-betas|opt-betas"},
    OptionSynonyms{"--eps", "epsilon|adam-eps|adam-epsilon|opt-eps"},
    OptionSynonyms{"--weight-decay", "wd|l2"},
    OptionSynonyms{"--grad-clip",
                   "max-grad-norm|clip-grad|clip-grad-norm|clip-norm|gradient-clip-val|"
                   "gradient-clipping|clip"},
    OptionSynonyms{"--schedule", "scheduler|sched|lr-scheduler|lr-schedule|lr-scheduler-type"},
    OptionSynonyms{"--step-epochs", "step-size|lr-step-size|decay-epochs"},
    OptionSynonyms{"--step-factor", "gamma|lr-gamma|decay-rate"},
    OptionSynonyms{"--plateau-patience", "patience|patience-epochs"},
    OptionSynonyms{"--warmup",
                   "warmup-steps|warmup-iters|warmup-updates|num-warmup-steps|lr-warmup-steps"},
    OptionSynonyms{"--warmup=N%", "warmup-ratio|warmup-proportion|warmup-epochs|lr-warmup-epochs"},
    OptionSynonyms{"--precision", "dtype|amp-dtype|mixed-precision"},
    OptionSynonyms{"--precision=bf16", "bf16|bfloat16|amp"},
    OptionSynonyms{"--precision=fp16", "fp16|half|float16"},
    OptionSynonyms{"--precision=tf32", "tf32"},
    OptionSynonyms{"--seed", "random-seed|manual-seed|rng-seed"},
    OptionSynonyms{"--device=cpu", "cpu|no-cuda|use-cpu"},
    OptionSynonyms{"--device=cuda", "cuda|gpu|use-cuda|use-gpu"},
    OptionSynonyms{"--threads-per-shard", "threads|num-threads|intra-op-threads"},
    OptionSynonyms{
        "--out",
        "output-dir|out-dir|outdir|output-path|save-dir|save-path|checkpoint-dir|"
        "ckpt-dir|model-dir|snapshot-dir|logdir|logging-dir|work-dir|run-dir|default-root-dir"},
    OptionSynonyms{"--out=DIR, which goes on where it stopped",
                   "resume-from-checkpoint|resume-checkpoint|ckpt-path|auto-resume"},
    OptionSynonyms{"--eval --resume-from=PATH",
                   "evaluate|eval-only|test|test-only|validate|do-eval"},
    OptionSynonyms{"--checkpoint-every",
                   "save-every|save-steps|save-interval|save-freq|checkpoint-interval|"
                   "checkpoint-freq|ckpt-every|ckpt-interval"},
    OptionSynonyms{"--keep",
                   "save-total-limit|keep-last|keep-checkpoints|save-top-k|"
                   "max-checkpoints|checkpoint-hist"},
    OptionSynonyms{"--log-every",
                   "log-interval|log-steps|logging-steps|log-freq|print-freq|"
                   "print-every|logging-step|log-every-n-steps"},
    OptionSynonyms{"--tensorboard", "tb|use-tensorboard|tensorboard-dir"},
    OptionSynonyms{"--quiet", "q|silent"},
    OptionSynonyms{"--holdout=SHARE", "valid-size|val-size|val-split|valid-split|test-size"},
    OptionSynonyms{"--resume=never", "overwrite-output-dir"},
};

/// Networks by the names that other trainers give them, in lower case.
struct ModelSynonyms {
  std::string_view here;   ///< options to type
  std::string_view names;  ///< `a|b`
};

inline constexpr std::array kModelSynonyms = {
    ModelSynonyms{"--model=lenet", "lenet5|lenet-5"},
    ModelSynonyms{"--model=unet16", "unet|u-net|vgg16|vgg-16|vgg|vgg16_bn|unet-vgg16|ternausnet"},
    ModelSynonyms{"--model=unet-resnet34", "resnet34|resnet-34|unet-resnet"},
    ModelSynonyms{"--model=unet-resnet101", "resnet101|resnet-101"},
    ModelSynonyms{"--model=textclf --size=base",
                  "roberta|roberta-base|bert|bert-base|bert-base-uncased|bert-base-cased|"
                  "xlm-roberta-base"},
    ModelSynonyms{"--model=textclf --size=large",
                  "roberta-large|bert-large|bert-large-uncased|bert-large-cased|xlm-roberta-large"},
};

/// Options of other trainers that `train` has no use for.
struct NotNeeded {
  std::string_view why;
  std::string_view names;  ///< `a|b`, without dashes before them
};

inline constexpr std::array kNotNeeded = {
    NotNeeded{"train reads and decodes samples with threads of its own",
              "num-workers|n-workers|workers|j|dataloader-num-workers|pin-memory|prefetch-factor"},
    NotNeeded{"the launcher gives each worker its rank and the store's address",
              "rank|world-size|dist-url|init-method|dist-backend|distributed|"
              "multiprocessing-distributed"},
    NotNeeded{"train trains unless --eval is given", "do-train|train"},
    NotNeeded{"samples are drawn in another order in each epoch", "shuffle"},
    // Options of earlier versions.
    NotNeeded{"gradients of several workers are always added up in fp32", "grad-comm"},
    NotNeeded{"a first line that calls its second column label is left out of a TSV file",
              "tsv-header"},
};

}  // namespace ddprun::trainer
