// The places where a service may be, and in which order an attempt asks them. Pure.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <utility>
#include <vector>

#include "base/endpoint.hpp"

namespace ddprun::rdzv {

class ServiceHosts {
 public:
  /// All with their ports.
  ServiceHosts(Endpoint first, std::vector<Endpoint> more) : hosts_(std::move(more)) {
    hosts_.insert(hosts_.begin(), std::move(first));
  }

  [[nodiscard]] bool are_several() const { return hosts_.size() > 1; }
  [[nodiscard]] const Endpoint& current() const { return hosts_.front(); }

  /// A new attempt: all of them once, from the current one on.
  void begin() {
    left_ = hosts_.size() - 1;
    refused_ = 0;
  }
  [[nodiscard]] bool has_next() const { return left_ > 0; }
  /// The current one is the last from now on, also of later attempts. False: all had their turn.
  bool go_on() {
    std::rotate(hosts_.begin(), hosts_.begin() + 1, hosts_.end());
    if (left_ == 0) return false;
    --left_;
    return true;
  }
  /// The current one refuses this node. True: so have all, in this attempt.
  bool refuse() { return ++refused_ == hosts_.size(); }
  /// The next one is that place, if it is one of them. Others are not taken.
  void prefer(std::string_view place) {
    const auto named = parse_endpoint(place);
    if (!named) return;
    const auto found = std::find(hosts_.begin() + 1, hosts_.end(), *named);
    if (found != hosts_.end()) std::rotate(hosts_.begin() + 1, found, found + 1);
  }

 private:
  std::vector<Endpoint> hosts_;
  std::size_t left_ = 0;     // behind the current one
  std::size_t refused_ = 0;  // of those that had their turn
};

}  // namespace ddprun::rdzv
