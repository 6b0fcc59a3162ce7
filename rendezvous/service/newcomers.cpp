#include "rendezvous/service/newcomers.hpp"

#include <algorithm>

namespace ddprun::rdzv {

void Newcomers::add(ConnectionId id, const std::string& addr, Clock::time_point now) {
  if (all_.emplace(id, Newcomer{addr, now - left_out_}).second) ++by_addr_[addr];
}

void Newcomers::remove(ConnectionId id) {
  const auto found = all_.find(id);
  if (found == all_.end()) return;
  const auto count = by_addr_.find(found->second.addr);
  if (--count->second == 0) by_addr_.erase(count);
  all_.erase(found);
}

std::optional<ConnectionId> Newcomers::oldest(Clock::time_point now) const {
  if (all_.empty() || all_.begin()->second.since + limits_.kept > now - left_out_)
    return std::nullopt;
  return all_.begin()->first;
}

std::optional<ConnectionId> Newcomers::to_close_for(const std::string& addr,
                                                    Clock::time_point now) const {
  const auto most =
      std::max_element(by_addr_.begin(), by_addr_.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most == by_addr_.end() || most->first == addr || most->second <= limits_.places_per_addr)
    return oldest(now);
  const auto theirs = std::find_if(all_.begin(), all_.end(),
                                   [&](const auto& one) { return one.second.addr == most->first; });
  return theirs->first;
}

}  // namespace ddprun::rdzv
