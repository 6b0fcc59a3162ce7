#include "trainer/host/thread_team.hpp"

#include <cstddef>
#include <utility>

#include "base/start_thread.hpp"
#include "trainer/error.hpp"

namespace ddprun::trainer {
namespace {

thread_local bool computes_piece = false;

}  // namespace

ThreadTeam::ThreadTeam(int threads) {
  others_.reserve(static_cast<std::size_t>(threads - 1));
  for (int number = 1; number < threads; ++number) {
    auto started = start_thread("compute", [this, number] { serve(number); });
    if (!started) {
      end();
      throw DataError("a thread that computes: " + why_no_thread(started.error()));
    }
    others_.push_back(std::move(*started));
  }
}

ThreadTeam::~ThreadTeam() { end(); }

void ThreadTeam::end() {
  ending_ = true;
  round_.fetch_add(1);
  round_.notify_all();
  for (std::thread& thread : others_) thread.join();
}

void ThreadTeam::run(int pieces, const std::function<void(int)>& piece) {
  if (others_.empty() || pieces == 1 || computes_piece) {
    for (int i = 0; i < pieces; ++i) piece(i);
    return;
  }
  piece_ = &piece;
  pieces_ = pieces;
  busy_ = static_cast<std::int32_t>(others_.size());
  round_.fetch_add(1);  // what was written above is seen by the threads that see this
  round_.notify_all();
  computes_piece = true;
  compute(0);
  computes_piece = false;
  for (std::int32_t busy = busy_; busy > 0; busy = busy_) busy_.wait(busy);
}

bool ThreadTeam::inside() { return computes_piece; }

void ThreadTeam::serve(int number) {
  computes_piece = true;
  for (std::int32_t seen = 0;;) {
    round_.wait(seen);
    seen = round_;
    if (ending_) return;
    compute(number);
    if (busy_.fetch_sub(1) == 1) busy_.notify_one();
  }
}

void ThreadTeam::compute(int number) const {
  for (int i = number; i < pieces_; i += threads()) (*piece_)(i);
}

}  // namespace ddprun::trainer
