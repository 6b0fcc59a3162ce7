// What the ranks of a starting job say to the store, by the patterns that PyTorch's process groups
// use (`docs/protocol.md` names the keys), and crowds that wait for one key.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "bench/store/script.hpp"

namespace ddprun::bench {

/// "gloo-2.6", "gloo-2.15" (each rank reads every rank's address, its own too), "gloo-v2" (one WAIT
/// and one MULTI_GET of all), "nccl" (rank 0 sets a unique id, the others wait for it).
std::unique_ptr<Script> make_storm(std::string_view pattern, std::uint32_t ranks);

/// Every client validates, pings, sets its own key, waits for a key that the last client sets, and
/// gets it.
class CrowdScript : public Script {
 public:
  /// `round` is part of the keys.
  CrowdScript(std::uint32_t clients, std::uint32_t round);
  bool next(std::uint32_t client, std::uint64_t step, Message& message) const override;

 private:
  std::uint32_t clients_;
  std::string prefix_;
  std::vector<std::string> awaited_;
};

/// Every client but the first validates and waits for one key.
class AwaitScript : public Script {
 public:
  explicit AwaitScript(std::uint32_t round);
  bool next(std::uint32_t client, std::uint64_t step, Message& message) const override;

 private:
  std::vector<std::string> awaited_;
};

/// Behind AwaitScript: the first client sets the key, the others receive their byte.
class WakeScript : public Script {
 public:
  explicit WakeScript(std::uint32_t round);
  bool next(std::uint32_t client, std::uint64_t step, Message& message) const override;

 private:
  std::string awaited_;
};

}  // namespace ddprun::bench
