#include "trainer/run/report/event_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <boost/crc.hpp>
#include <cerrno>
#include <chrono>
#include <protozero/pbf_writer.hpp>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/open_file.hpp"

namespace ddprun::trainer {
namespace {

// Numbers of fields in event.proto and summary.proto.
constexpr protozero::pbf_tag_type kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5,
                                  kSessionLog = 7;
constexpr protozero::pbf_tag_type kSummaryValue = 1;
constexpr protozero::pbf_tag_type kTag = 1, kSimpleValue = 2;
constexpr protozero::pbf_tag_type kSessionStatus = 1;
constexpr int kSessionStarts = 1;

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// Castagnoli's, rotated and shifted as TFRecords have it.
std::uint32_t masked_crc(const std::string& bytes) {
  boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true> crc;
  crc.process_bytes(bytes.data(), bytes.size());
  const std::uint32_t sum = crc.checksum();
  return ((sum >> 15) | (sum << 17)) + 0xa282ead8U;
}

template <class Integer>
std::string little_endian(Integer value) {
  std::string bytes;
  for (std::size_t i = 0; i < sizeof value; ++i)
    bytes.push_back(static_cast<char>(static_cast<unsigned char>(value >> (8 * i))));
  return bytes;
}

std::string record_of(const std::string& message) {
  const std::string length = little_endian(std::uint64_t{message.size()});
  return length + little_endian(masked_crc(length)) + message + little_endian(masked_crc(message));
}

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0 || name[0] == '\0') return "localhost";
  std::string text = name.data();
  for (char& c : text)
    if (c == '/') c = '_';
  return text;
}

std::string file_name(double seconds) {
  return fmt::format("events.out.tfevents.{:010}.{}.{}", static_cast<std::int64_t>(seconds),
                     host_name(), ::getpid());
}

}  // namespace

std::string event_record(double seconds, std::int64_t step, std::span<const Scalar> scalars) {
  std::string message;
  protozero::pbf_writer event(message);
  event.add_double(kWallTime, seconds);
  event.add_int64(kStep, step);
  {
    protozero::pbf_writer summary(event, kSummary);
    for (const Scalar& scalar : scalars) {
      protozero::pbf_writer value(summary, kSummaryValue);
      value.add_string(kTag, scalar.tag);
      value.add_float(kSimpleValue, static_cast<float>(scalar.value));
    }
  }
  return record_of(message);
}

std::string first_event_record(double seconds) {
  std::string message;
  protozero::pbf_writer event(message);
  event.add_double(kWallTime, seconds);
  event.add_string(kFileVersion, "brain.Event:2");
  return record_of(message);
}

std::string session_start_record(double seconds, std::int64_t step) {
  std::string message;
  protozero::pbf_writer event(message);
  event.add_double(kWallTime, seconds);
  event.add_int64(kStep, step);
  {
    protozero::pbf_writer session(event, kSessionLog);
    session.add_enum(kSessionStatus, kSessionStarts);
  }
  return record_of(message);
}

AppendedFile::AppendedFile(const std::filesystem::path& path) : path_(path.string()) {
  std::error_code no_folder;
  if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path(), no_folder);
  Result<UniqueFd> opened = open_own_file(path_, O_WRONLY | O_CREAT | O_APPEND, 0666);
  // open() knows of a folder that could not be made only that it is missing.
  if (!opened) {
    const std::error_code failed = opened.error();
    throw std::system_error(no_folder ? no_folder : failed, path_);
  }
  fd_ = std::move(*opened);
}

void AppendedFile::append(const std::string& piece) {
  std::string_view rest = piece;
  while (!rest.empty()) {
    const ssize_t written = ::write(fd_.get(), rest.data(), rest.size());
    if (written > 0) {
      // Less than all: only the next write tells why.
      rest.remove_prefix(static_cast<std::size_t>(written));
    } else if (written == 0 || errno != EINTR) {
      const int error = written == 0 ? EIO : errno;
      // The next piece, of this start or a later one, would begin within this one.
      const auto left = static_cast<off_t>(piece.size() - rest.size());
      const off_t end = left > 0 ? ::lseek(fd_.get(), 0, SEEK_END) : 0;
      const bool is_cut = left == 0 || (end >= left && ::ftruncate(fd_.get(), end - left) == 0);
      throw std::system_error(error, std::generic_category(),
                              is_cut ? path_ : path_ + " (its end is incomplete)");
    }
  }
}

bool ends_within_line(const std::filesystem::path& path) {
  const Result<UniqueFd> file = open_own_file(path, O_RDONLY);
  if (!file) return false;
  const off_t end = ::lseek(file->get(), 0, SEEK_END);
  char last = '\n';
  return end > 0 && ::pread(file->get(), &last, 1, end - 1) == 1 && last != '\n';
}

EventFile::EventFile(const std::filesystem::path& directory, std::int64_t steps)
    : file_(directory / file_name(now())) {
  const double seconds = now();
  file_.append(first_event_record(seconds) + session_start_record(seconds, steps + 1));
}

void EventFile::append(std::int64_t step, std::span<const Scalar> scalars) {
  file_.append(event_record(now(), step, scalars));
}

}  // namespace ddprun::trainer
