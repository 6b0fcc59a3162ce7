#include "agent/control/feeds.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "agent/events/event_json.hpp"
#include "agent/streams/log_file.hpp"
#include "agent/workers/worker_starter.hpp"
#include "proto/json_document.hpp"
#include "proto/message_limits.hpp"

namespace ddprun::agent {
namespace {

std::string_view name_of_stream(bool standard_error, bool both) {
  if (both) return "both";
  return standard_error ? "stderr" : "stdout";
}

std::string frame_of(const OutputPiece& piece, int rank) {
  std::string json =
      fmt::format(R"({{"rank":{},"round":{},"stream":"{}","text":)", rank, piece.worker.first,
                  name_of_stream(piece.standard_error, piece.both));
  proto::append_json_text(json, piece.text, RecentOutput::kPieceBytesMax);
  return json + "}";
}

}  // namespace

EventFeed::EventFeed(const EventLog& log, std::string node, const EventsWanted& wanted)
    : log_(log), node_(std::move(node)), next_event_(std::max<std::uint64_t>(1, wanted.from)) {
  if (!wanted.follow) end_ = log.next_number();
}

std::optional<std::string> EventFeed::next() {
  if (is_over()) return std::nullopt;
  const JobEvent* const event = log_.from(next_event_);
  if (event == nullptr) return std::nullopt;
  if (event->number > next_event_)
    return fmt::format("{{\"lost\":{}}}",
                       event->number - std::exchange(next_event_, event->number));
  ++next_event_;
  return event_json(*event, node_);
}

OutputFeed::OutputFeed(std::shared_ptr<RecentOutput> output, const AgentConfig& config,
                       const NodeMachine& machine, const LogsWanted& wanted)
    : config_(config), machine_(machine), wanted_(wanted), follower_(std::move(output)) {
  look_at_round();
  for (const OutputPiece& piece : follower_.take_ends()) add(piece);
}

int OutputFeed::rank_of(const OutputPiece& piece) const {
  const auto local_rank = static_cast<std::size_t>(piece.worker.second);
  const auto& workers = machine_.workers();
  const bool is_there = machine_.round() != nullptr && local_rank < workers.size() &&
                        workers[local_rank].start.number == piece.worker.first;
  return is_there ? machine_.round()->round.first_rank + piece.worker.second : piece.rank;
}

void OutputFeed::add(const OutputPiece& piece) {
  const int rank = rank_of(piece);
  if (is_wanted(rank)) frames_.push_back(frame_of(piece, rank));
}

std::string OutputFeed::why_not(const NodeMachine& machine, const LogsWanted& wanted) {
  const NodeRound* const round = machine.round();
  if (round == nullptr) return "no worker has been started yet";
  if (!wanted.rank) return "";
  const int first = round->round.first_rank;
  const int end = first + static_cast<int>(machine.workers().size());
  if (*wanted.rank >= first && *wanted.rank < end) return "";
  return fmt::format("no worker of this node has the rank {}", *wanted.rank);
}

/// Streams that do not come to us.
void OutputFeed::look_at_round() {
  const NodeRound* const round = machine_.round();
  if (round == nullptr || round_ == round->round.number) return;
  round_ = round->round.number;
  for (int i = 0; i < static_cast<int>(config_.workers.size()); ++i) {
    const int rank = round->round.first_rank + i;
    if (!is_wanted(rank)) continue;
    for (const bool standard_error : {false, true})
      add_place(rank, machine_.workers()[static_cast<std::size_t>(i)], i, standard_error);
  }
}

void OutputFeed::add_place(int rank, const WorkerRecord& worker, int local_rank,
                           bool standard_error) {
  const StreamMode mode = settings_of_stream(config_, local_rank, standard_error, rank).mode;
  const bool is_file = mode == StreamMode::file;
  if (!is_file && mode != StreamMode::inherit && mode != StreamMode::null) return;
  std::string json = fmt::format(R"({{"rank":{},"round":{},"stream":"{}",)", rank,
                                 worker.start.number, name_of_stream(standard_error, false));
  if (is_file) {
    json += "\"file\":";
    proto::append_json_text(
        json,
        stream_file(config_.logs.folder, worker.start.restart_count, local_rank, standard_error),
        proto::kTextBytesMax);
  } else {
    json += mode == StreamMode::null ? R"("goes_to":"nowhere")" : R"("goes_to":"ddprun's own")";
  }
  frames_.push_back(json + "}");
}

std::optional<std::string> OutputFeed::next() {
  if (wanted_.follow) look_at_round();
  while (frames_.empty() && wanted_.follow) {
    const auto piece = follower_.next();
    if (const std::uint64_t lost = follower_.take_lost(); lost > 0)
      frames_.push_back(fmt::format("{{\"lost_bytes\":{}}}", lost));
    if (!piece) break;
    add(*piece);
  }
  if (frames_.empty()) return std::nullopt;
  std::string frame = std::move(frames_.front());
  frames_.pop_front();
  return frame;
}

}  // namespace ddprun::agent
