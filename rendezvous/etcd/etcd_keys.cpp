#include "rendezvous/etcd/etcd_keys.hpp"

#include <charconv>

#include <fmt/format.h>

#include "rendezvous/service/journal_format.hpp"

namespace ddprun::rdzv {
namespace {

constexpr std::size_t kDigits = 16;

std::optional<std::uint64_t> hex_in(std::string_view text) {
  std::uint64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, failed] = std::from_chars(text.data(), end, number, 16);
  if (text.size() != kDigits || failed != std::errc() || stop != end) return std::nullopt;
  return number;
}

}  // namespace

std::string EtcdKeys::job(std::string_view run_id) const {
  return fmt::format("{}/jobs/{}/", prefix_, escaped_run_id(run_id));
}

std::string EtcdKeys::generation(std::string_view run_id, std::uint64_t number) const {
  return fmt::format("{}{:016x}/", job(run_id), number);
}

std::string EtcdKeys::part(std::string_view run_id, std::uint64_t number,
                           std::uint64_t sequence) const {
  return fmt::format("{}{:016x}", generation(run_id, number), sequence);
}

std::string EtcdKeys::end_of(std::string folder) {
  folder.back() = '/' + 1;
  return folder;
}

std::optional<EtcdKeys::JobKey> EtcdKeys::job_key(std::string_view key) const {
  const std::string folder = prefix_ + "/jobs/";
  if (!key.starts_with(folder)) return std::nullopt;
  key.remove_prefix(folder.size());
  const std::size_t slash = key.find('/');
  if (slash == std::string_view::npos || slash == 0) return std::nullopt;
  JobKey found;
  found.job = key.substr(0, slash);
  key.remove_prefix(slash + 1);
  if (key == "head") {
    found.is_head = true;
    return found;
  }
  if (key.size() != 2 * kDigits + 1 || key[kDigits] != '/') return std::nullopt;
  const auto generation = hex_in(key.substr(0, kDigits));
  const auto sequence = hex_in(key.substr(kDigits + 1));
  if (!generation || *generation == 0 || !sequence) return std::nullopt;
  found.generation = *generation;
  found.sequence = *sequence;
  return found;
}

std::string etcd_head_value(std::uint64_t generation) { return fmt::format("{:016x}", generation); }

std::optional<std::uint64_t> generation_in(std::string_view head_value) {
  const auto number = hex_in(head_value);
  return number && *number != 0 ? number : std::nullopt;
}

}  // namespace ddprun::rdzv
