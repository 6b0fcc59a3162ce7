// The library that our all-reduce is compared with, if it was found when this was built.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace ddprun::bench {

/// One algorithm of the peer, on one rank.
class PeerAlgorithm {
 public:
  virtual ~PeerAlgorithm() = default;
  [[nodiscard]] virtual std::string name() const = 0;
  /// Sums the floats that were given to make_peer() over all ranks, in place.
  virtual void all_reduce(std::size_t floats) = 0;
};

/// What the peer is, with its version; or why there is none.
std::string peer_description();

/// The peer's algorithms over `data`; none if there is no peer. Ranks meet through files in
/// `directory`.
std::vector<std::unique_ptr<PeerAlgorithm>> make_peer(int rank, int world_size,
                                                      const std::string& directory,
                                                      std::vector<float>& data);

}  // namespace ddprun::bench
