#include "trainer/nccl/announcement.hpp"

#include <fmt/format.h>

#include <charconv>
#include <map>
#include <sstream>
#include <utility>

#include "trainer/nccl/nccl_api.hpp"

namespace ddprun::trainer::nccl {
namespace {

constexpr const char* kTag = "ddprun-nccl-3";

template <class Number>
bool read(const std::map<std::string, std::string>& fields, const char* name, Number& number) {
  const auto field = fields.find(name);
  if (field == fields.end()) return false;
  const char* const end = field->second.data() + field->second.size();
  const auto [stop, error] = std::from_chars(field->second.data(), end, number);
  return error == std::errc() && stop == end;
}

}  // namespace

std::string Announcement::text() const {
  return fmt::format(
      "{} boot={} pidns={} pid={} start={} host={} gpu={} card={} nccl={} world={} shards={} "
      "order={} floats={}",
      kTag, process.boot_id, process.pid_namespace, process.pid, process.start_time, host, gpu,
      card, version, world_size, shards, static_cast<int>(order), arena_floats);
}

std::optional<Announcement> Announcement::parse(const std::string& text) {
  std::istringstream words(text);
  std::string word;
  if (!(words >> word) || word != kTag) return std::nullopt;
  std::map<std::string, std::string> fields;
  while (words >> word) {
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos) return std::nullopt;
    fields[word.substr(0, equals)] = word.substr(equals + 1);
  }
  Announcement one;
  one.process.boot_id = fields["boot"];
  one.process.pid_namespace = fields["pidns"];
  one.host = fields["host"];
  one.gpu = fields["gpu"];
  one.card = fields["card"];
  int order = -1;
  const bool whole = read(fields, "pid", one.process.pid) &&
                     read(fields, "start", one.process.start_time) &&
                     read(fields, "nccl", one.version) && read(fields, "world", one.world_size) &&
                     read(fields, "shards", one.shards) && read(fields, "order", order) &&
                     read(fields, "floats", one.arena_floats);
  if (!whole || one.process.pid <= 0 || order < 0 || order > 1) return std::nullopt;
  one.order = static_cast<SumOrder>(order);
  return one;
}

std::string why_not(const std::vector<Announcement>& ranks, bool shares_gpus) {
  const Announcement& first = ranks.front();
  std::map<std::string, std::size_t> by_gpu;
  std::map<std::pair<std::string, std::string>, std::size_t> by_card;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const Announcement& one = ranks[rank];
    if (one.world_size != first.world_size || one.shards != first.shards ||
        one.arena_floats != first.arena_floats) {
      return fmt::format(
          "rank {} has world size {}, {} shards and {} gradient floats where rank 0 has {}, {} and "
          "{}: start all ranks with the same options",
          rank, one.world_size, one.shards, one.arena_floats, first.world_size, first.shards,
          first.arena_floats);
    }
    if (one.order != first.order) {
      const auto flag = [](SumOrder order) { return order == SumOrder::tree ? "with" : "without"; };
      return fmt::format("rank {} was started {} --exact, but rank 0 {}: start all ranks alike",
                         rank, flag(one.order), flag(first.order));
    }
    if (one.version != first.version) {
      return fmt::format(
          "rank {} on {} has NCCL {} where rank 0 on {} has {}: install the same on all machines, "
          "or "
          "set DDPRUN_CUDA_PATH to a folder with it",
          rank, one.host, version_text(one.version), first.host, version_text(first.version));
    }
    const auto [other, is_new] = by_gpu.try_emplace(one.gpu, rank);
    if (!is_new && !shares_gpus) {
      return fmt::format(
          "ranks {} and {} on {} have the same GPU ({}): start at most one worker for each GPU "
          "(--nproc-per-node=gpu)",
          other->second, rank, one.host, one.gpu);
    }
    if (shares_gpus || one.card.empty()) continue;
    // NCCL tells GPUs of a host apart by their PCI addresses, which slices have in common.
    const auto [beside, is_first] = by_card.try_emplace({one.process.boot_id, one.card}, rank);
    if (!is_first) {
      return fmt::format(
          "ranks {} and {} on {} have MIG slices of one GPU ({} and {}, PCI {}), which NCCL does "
          "not "
          "connect: start one worker for each card, on its largest slice or with MIG switched off "
          "(nvidia-smi -mig 0)",
          beside->second, rank, one.host, ranks[beside->second].gpu, one.gpu, one.card);
    }
  }
  return "";
}

}  // namespace ddprun::trainer::nccl
