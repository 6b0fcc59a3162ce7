// The life of one large job, from its first round to its end, against an rdzvd that was started for
// it.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/endpoint.hpp"
#include "proto/encryption.hpp"

namespace ddprun::bench {

struct LifeSettings {
  std::uint32_t agents = 10'000;
  std::chrono::nanoseconds idle = std::chrono::seconds(6);
  int server_cpu = -1;
  std::string folder;  ///< in which state folders are made
};

/// What the agents' rdzvd has beside them.
struct LifeKind {
  std::string name;
  bool has_journal = false;
  bool has_secret = false;
  std::shared_ptr<const proto::Encrypter> encrypter = nullptr;  ///< with a secret; null: none
  /// The members of an etcd, in which the journal is in place of a folder. Empty: there is none.
  std::vector<Endpoint> etcd = {};
};

/// What something took: by the wall clock, and of rdzvd's CPU.
struct Cost {
  double seconds = 0;
  double cpu_seconds = 0;
};

struct Life {
  Cost form;            ///< first connect to the last agent's round
  Cost form_again;      ///< a worker's failure to the last agent's next round
  Cost end;             ///< first "workers done" to the end of the last connection
  double idle_cpu = 0;  ///< share of a core while agents only send keep-alives
  double keep_alives_per_second = 0;
  double memory_bytes = 0;  ///< growth of rdzvd's private memory since it was started
  // With a state folder.
  double first_round_bytes = 0;  ///< of the journal
  double next_round_bytes = 0;
  double start_seconds = 0;   ///< of an rdzvd with an empty folder, to its first line
  double replay_seconds = 0;  ///< of one that reads this journal
  // With an etcd: its changes, each a transaction, while ...
  double form_changes = 0;
  double idle_changes = 0;
  double form_again_changes = 0;
};

/// Throws std::runtime_error where rdzvd does not do its part.
Life live(const LifeSettings& settings, const LifeKind& kind);

/// As many clients of the store in a new rdzvd: connect, validate, SET, WAIT for a key set last,
/// GET.
Cost crowd(const LifeSettings& settings);

}  // namespace ddprun::bench
