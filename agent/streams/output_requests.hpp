// What other threads share with the one that reads workers: what they ask of it, what it answers,
// and the descriptors that it waits for.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "agent/streams/outlets.hpp"
#include "agent/streams/output_source.hpp"
#include "base/result.hpp"
#include "base/unique_handle.hpp"
#include "proto/membership_messages.hpp"

namespace ddprun::agent {

/// What is wanted, and how far the thread is with it.
template <class State>
struct Request {
  State wanted{};
  State done{};  ///< changed by the thread alone
  [[nodiscard]] bool is_open() const { return wanted != done; }
};

/// Everything is under the mutex.
struct OutputRequests {
  /// Nothing is read any more but streams of workers that go on, and no line of ours waits.
  [[nodiscard]] bool is_drained() const {
    return new_lines.empty() &&
           std::all_of(open_streams.begin(), open_streams.end(),
                       [this](const auto& open) { return goes_on(open.first); });
  }
  [[nodiscard]] bool goes_on(const WorkerKey& worker) const {
    return kept != nullptr && kept->contains(worker);
  }

  std::mutex mutex;
  std::condition_variable changed;  ///< an answer has come

  std::vector<OutputSource> new_sources;
  std::vector<std::string> new_lines;  ///< of ours; until they have gone to the writer
  Request<std::uint64_t> resize;       ///< by their numbers
  Request<std::uint64_t> catch_up;     ///< by their numbers
  Request<bool> pause;                 ///< the shell gets the terminal; and no bar of ours is on it
  Request<bool> end_folds;        ///< no line is held back any more; and those that were are out
  bool streams_must_end = false;  ///< the agent waits for that
  bool stop = false;
  std::map<WorkerKey, int> open_streams;    ///< that have not ended, the new ones included
  proto::RoundNumber next_round = 0;        ///< above all of which we have streams
  proto::RoundNumber over = 0;              ///< of the rounds below it no worker lives, but `kept`
  std::shared_ptr<const KeptWorkers> kept;  ///< null: none
  OutputSight sight;
};

/// What the thread waits for. From any thread.
class StreamWatch {
 public:
  StreamWatch();

  /// False: the system refused a descriptor.
  [[nodiscard]] bool usable() const { return usable_; }
  void wake() const;
  void note_woken() const;
  /// Errors: the system's.
  [[nodiscard]] ErrorCode add(int fd) const;
  /// All or none.
  [[nodiscard]] ErrorCode add(const std::vector<OutputSource>& sources) const;
  void remove(int fd) const;

  [[nodiscard]] int epoll_fd() const { return epoll_.get(); }
  [[nodiscard]] int wake_fd() const { return wake_.get(); }

 private:
  UniqueFd wake_;  // eventfd
  UniqueFd epoll_;
  bool usable_;
};

}  // namespace ddprun::agent
