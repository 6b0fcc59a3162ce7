#include "tests/sim/sim_told.hpp"

#include <iterator>
#include <utility>

#include "rendezvous/service/journal_format.hpp"

namespace ddprun::sim {

namespace {

std::string frames_of(const std::vector<rdzv::JobRecord>& records) {
  std::string frames;
  for (const rdzv::JobRecord& record : records) rdzv::append_journal_frame(frames, record);
  return frames;
}

}  // namespace

void SimTold::write(const rdzv::ServiceActions& actions) {
  Write write;
  write.records = actions.records;
  write.frames = frames_of(actions.records);
  if (!actions.snapshots.empty()) {
    write.instead = frames_of(actions.snapshots.back().records);
    write.frames.clear();
  }
  if (!actions.forget.empty()) {
    write.instead.emplace();
    write.frames.clear();
  }
  written_.push_back(std::move(write));
}

void SimTold::apply(std::string& frames, const Write& write) {
  if (write.instead) frames = *write.instead;
  frames += write.frames;
}

void SimTold::tell(Clock::time_point at) {
  for (const Write& write : std::exchange(written_, {})) apply(told_, write);
  if (at < clock_) broken_ = "the service's clock never goes back";
  clock_ = at;
}

std::vector<rdzv::JobRecord> SimTold::read(const std::vector<rdzv::JobRecord>& past,
                                           Clock::time_point at) {
  if (at < clock_) broken_ = "the service's clock never goes back";
  const std::string found = frames_of(past);
  std::vector<rdzv::JobRecord> untold;
  while (found != told_) {
    if (written_.empty()) {
      broken_ = "a new leader knows what was told, and nothing that was not written";
      return {};
    }
    Write write = std::move(written_.front());
    written_.pop_front();
    apply(told_, write);
    std::move(write.records.begin(), write.records.end(), std::back_inserter(untold));
  }
  written_.clear();
  return untold;
}

}  // namespace ddprun::sim
