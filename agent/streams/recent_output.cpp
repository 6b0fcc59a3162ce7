#include "agent/streams/recent_output.hpp"

#include <algorithm>

#include "base/printable.hpp"

namespace ddprun::agent {
namespace {

constexpr std::size_t kCharacterBytesMax = 4;

/// The bytes at the end that are the beginning of a character whose other bytes may follow.
std::string_view unfinished_end(std::string_view text) {
  for (std::size_t back = 1; back < kCharacterBytesMax && back <= text.size(); ++back) {
    const std::size_t announced = utf8_bytes_announced(text[text.size() - back]);
    if (announced > 0) return text.substr(text.size() - (announced > back ? back : 0));
  }
  return {};
}

}  // namespace

RecentOutput::Follower::Follower(std::shared_ptr<RecentOutput> output)
    : output_(std::move(output)) {
  const std::lock_guard lock(output_->mutex_);
  ends_ = output_->ends();
  if (output_->followers_++ == 0)
    for (auto& [key, stream] : output_->streams_) stream.held = unfinished_end(stream.end.text);
  next_piece_ = output_->next_piece_;
  bytes_before_ = output_->bytes_passed_;
}

RecentOutput::Follower::~Follower() {
  const std::lock_guard lock(output_->mutex_);
  if (--output_->followers_ > 0) return;
  output_->pieces_.clear();
  output_->bytes_kept_ = 0;
  for (auto& [key, stream] : output_->streams_) stream.held.clear();
}

std::optional<OutputPiece> RecentOutput::Follower::next() {
  const std::lock_guard lock(output_->mutex_);
  const auto& pieces = output_->pieces_;
  const std::uint64_t first = output_->next_piece_ - pieces.size();
  if (next_piece_ < first) {
    const std::uint64_t gone = output_->bytes_passed_ - output_->bytes_kept_;
    lost_ += gone - bytes_before_;
    bytes_before_ = gone;
    next_piece_ = first;
  }
  if (next_piece_ == output_->next_piece_) return std::nullopt;
  const OutputPiece& piece = pieces[next_piece_++ - first];
  bytes_before_ += piece.text.size();
  return piece;
}

void RecentOutput::add(const OutputSource& source, std::string_view bytes) {
  if (bytes.empty()) return;
  const std::lock_guard lock(mutex_);
  const auto [entry, is_new] = streams_.try_emplace({source.worker(), source.standard_error});
  Stream& stream = entry->second;
  if (is_new) stream.end = {source.worker(), source.rank, source.standard_error, source.both, {}};
  stream.written_at = ++writes_;
  if (followers_ > 0) pass_on(stream, bytes);
  keep(stream, bytes);
}

void RecentOutput::keep(Stream& stream, std::string_view bytes) {
  std::string& end = stream.end.text;
  stream.is_cut = stream.is_cut || end.size() + bytes.size() > kEndBytes;
  if (bytes.size() >= kEndBytes) {
    end.assign(bytes.substr(bytes.size() - kEndBytes));
    return;
  }
  // Many small pieces must not each move all the others.
  if (end.size() + bytes.size() > 2 * kEndBytes) end.erase(0, end.size() - kEndBytes);
  end.append(bytes);
}

void RecentOutput::pass_on(Stream& stream, std::string_view bytes) {
  std::string joined;
  if (!stream.held.empty()) {
    joined = std::exchange(stream.held, "").append(bytes);
    bytes = joined;
  }
  while (!bytes.empty()) {
    std::string_view text = bytes.substr(0, kPieceBytesMax);
    text.remove_suffix(unfinished_end(text).size());
    if (text.empty()) break;
    add_piece(stream.end, text);
    bytes.remove_prefix(text.size());
  }
  stream.held = bytes;
  if (!std::exchange(is_told_, true) && has_more_) has_more_();
}

void RecentOutput::add_piece(const OutputPiece& from, std::string_view text) {
  pieces_.push_back({from.worker, from.rank, from.standard_error, from.both, std::string(text)});
  ++next_piece_;
  bytes_passed_ += text.size();
  bytes_kept_ += text.size();
  for (; bytes_kept_ > kPiecesBytesMax; pieces_.pop_front())
    bytes_kept_ -= pieces_.front().text.size();
}

void RecentOutput::looked() {
  const std::lock_guard lock(mutex_);
  is_told_ = false;
}

void RecentOutput::note_end(const OutputSource& source) {
  const std::lock_guard lock(mutex_);
  const auto found = streams_.find({source.worker(), source.standard_error});
  if (found != streams_.end()) found->second.has_ended = true;
}

void RecentOutput::forget_before(proto::RoundNumber round) {
  const std::lock_guard lock(mutex_);
  std::erase_if(streams_, [round](const auto& entry) {
    return entry.first.first.first < round && entry.second.has_ended;
  });
}

std::vector<OutputPiece> RecentOutput::ends() const {
  std::vector<OutputPiece> ends;
  for (const auto& [key, stream] : streams_) {
    OutputPiece piece = stream.end;
    std::string& text = piece.text;
    const bool is_cut = stream.is_cut;
    if (text.size() > kEndBytes) text.erase(0, text.size() - kEndBytes);
    const auto first_end = text.find('\n');
    if (is_cut && first_end != std::string::npos) text.erase(0, first_end + 1);
    text.resize(text.size() - unfinished_end(text).size());
    if (!text.empty()) ends.push_back(std::move(piece));
  }
  return ends;
}

std::string RecentOutput::last_line(const WorkerKey& worker) const {
  const std::lock_guard lock(mutex_);
  const Stream* newest = nullptr;
  for (const bool standard_error : {false, true}) {
    const auto found = streams_.find({worker, standard_error});
    if (found != streams_.end() &&
        (newest == nullptr || newest->written_at < found->second.written_at))
      newest = &found->second;
  }
  if (newest == nullptr) return "";
  const std::string_view text = newest->end.text;
  const auto last = text.find_last_not_of(" \t\r\n");
  if (last == std::string_view::npos) return "";
  const auto before = text.find_last_of("\r\n", last);
  const std::size_t first = before == std::string_view::npos ? 0 : before + 1;
  return std::string(text.substr(first, last + 1 - first));
}

}  // namespace ddprun::agent
