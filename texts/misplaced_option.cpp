#include "texts/misplaced_option.hpp"

#include <array>

#include "base/shell_word.hpp"
#include "texts/words.hpp"

namespace ddprun {
namespace {

struct ProgramOptions {
  std::string_view program;
  std::string_view names;
};

// The folders of the programs must not include each other, so the names are repeated here. A test
// of each program compares its list with what it accepts.
constexpr std::array kPrograms = {
    ProgramOptions{
        "ddprun",
        "nproc-per-node|nnodes|role|omp-threads|numa-binding|module|no-python|run-path|preload|"
        "local-rank-argument|use-env|gpus|xpus|gpu-visibility|virtual-local-rank|output|stdin|"
        "log-dir|redirects|tee|local-ranks-filter|rank-filter|log-line-prefix-template|fold|color|"
        "log-max-size|log-keep|bar-interval|chaos|preflight|preflight-timeout|on-event|on-notice|"
        "log-policy|duplicate-"
        "stdout-filters|"
        "duplicate-stderr-filters|logs-specs|max-restarts|restart-window|restart-delay|min-uptime|"
        "max-node-changes|no-restart-on|explain-policy|exit-code|report|event-log|progress-timeout|"
        "log-"
        "timeout|on-silence|uninterruptible-timeout|"
        "grace-period|kill-timeout|contain|signals-to-handle|forward-signals|standalone|"
        "master-addr|master-port|worker-store|store-allow-uid|rdzv-id|rdzv-backend|rdzv-endpoint|"
        "rdzv-conf|node-rank|local-addr|port-range|grow-delay|rdzv-secret-file|rdzv-auth|rdzv-tls|"
        "rdzv-tls-ca|rdzv-tls-cert|rdzv-tls-key|"
        "make-secret|hosts|hostfile|ssh|remote-path|pass-env|ips|run-mode|backend|elastic-level|"
        "dry-run|"
        "log-level|event-log-handler|monitor-interval|start-method"},
    ProgramOptions{
        "train",
        "model|classes|dropout|stem|decoder|pos-weight|size|data|image-shape|crop|flip|"
        "data-memory|skip-bad|normalize|mask-threshold|holdout|sentences|max-tokens|tokens|"
        "init|init-from|init-skip|epochs|max-steps|batch|global-batch|shards|"
        "accumulate|optimizer|lr|scale-lr|momentum|nesterov|betas|eps|weight-decay|decay|"
        "grad-clip|schedule|step-epochs|step-factor|plateau-on|plateau-patience|plateau-factor|"
        "warmup|precision|loss-scale|seed|device|parallel|replicas|no-deterministic|exact|"
        "local-rank|cuda-graph|threads-per-shard|lanes|bucket-mb|comm-timeout|rendezvous-timeout|"
        "out|"
        "resume|eval|resume-from|checkpoint-every|best|keep|log-every|tensorboard|json|quiet"},
    ProgramOptions{
        "rdzvd",
        "listen|listen-timeout|allow-uid|secret-file|secret-dir|tls|tls-cert|tls-key|tls-ca|state-"
        "dir|journal|etcd-ca|etcd-cert|etcd-key|etcd-user|etcd-password-file|"
        "no-store|no-old-dialect|max-clients|max-key-bytes|"
        "max-value-bytes|max-list-elements|max-request-bytes|max-store-bytes|max-waited-keys|max-"
        "unread-bytes|"
        "max-tenant-jobs|max-tenant-nodes|handshake-timeout|log-level|stats-interval|status|fence|"
        "run-id|endpoint|json"},
};

}  // namespace

std::vector<std::string_view> options_of(std::string_view program) {
  for (const auto& [known, names] : kPrograms) {
    if (known == program) return words_of(names);
  }
  return {};
}

std::string_view program_with_option(std::string_view name) {
  for (const auto& [program, list] : kPrograms) {
    if (has_word(list, name)) return program;
  }
  return "";
}

std::string misplaced_option(std::string_view program, std::string_view name,
                             std::string_view value) {
  const std::string_view owner = program_with_option(name);
  if (owner.empty() || owner == program) return "";
  const std::string option = "--" + std::string(name);
  const std::string typed = option + (value.empty() ? " ..." : "=" + shell_word(value));
  const std::string message = option + " is an option of " + std::string(owner);
  if (program == "ddprun" && owner == "train")
    return message + ": put it behind PROGRAM, as in ddprun train " + typed;
  if (program == "train" && owner == "ddprun")
    return message + ": put it before train, as in ddprun " + typed + " train";
  return message;
}

}  // namespace ddprun
