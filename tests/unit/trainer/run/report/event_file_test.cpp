#include "trainer/run/report/event_file.hpp"

#include <array>
#include <catch2/catch.hpp>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <system_error>

#include "tests/support/full_disk.hpp"
#include "tests/support/temp_dir.hpp"

namespace ddprun::trainer {
namespace {

std::string hexadecimal(const std::string& bytes) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string text;
  for (const char byte : bytes) {
    const auto value = static_cast<unsigned char>(byte);
    text += kDigits[value >> 4];
    text += kDigits[value & 15];
  }
  return text;
}

TEST_CASE("records have the bytes that TensorFlow's writer gives them") {
  // Made by tensorboard 2.21: RecordWriter over Event(wall_time=1.5, file_version=...) and
  // Event(wall_time=2.5, step=7, summary=...).
  CHECK(hexadecimal(first_event_record(1.5)) ==
        "1800000000000000a37f4b2209000000000000f83f1a0d627261696e2e4576656e743a322a28646c");
  const std::array<Scalar, 2> scalars{Scalar{"loss/train", 0.5}, Scalar{"learning_rate", 0.001}};
  CHECK(hexadecimal(event_record(2.5, 7, scalars)) ==
        "36000000000000004f578cef09000000000000044010072a290a110a0a6c6f73732f747261696e150000003f0a"
        "140a0d6c6561726e696e675f72617465156f12833a3b1c4113");
  // From Event(wall_time=2.5, step=7, session_log=SessionLog(status=START)).
  CHECK(hexadecimal(session_start_record(2.5, 7)) ==
        "0f000000000000006d532b0909000000000000044010073a0208019aaf83ce");
}

TEST_CASE("a start has a file of its own, made where it is missing") {
  const ddprun::test::TempDir directory;
  const auto folder = directory.path() / "run";
  {
    EventFile file(folder);
    file.append(1, std::array{Scalar{"loss/train", 1}});
  }
  const auto first = std::filesystem::directory_iterator(folder)->path();
  CHECK(first.filename().string().starts_with("events.out.tfevents."));
  std::ifstream in(first, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(in), {}};
  CHECK(bytes.size() == first_event_record(0).size() + session_start_record(0, 1).size() +
                            event_record(0, 1, std::array{Scalar{"loss/train", 1}}).size());
  std::ofstream(directory.path() / "file") << "x";
  CHECK_THROWS_AS(EventFile(directory.path() / "file"), std::system_error);
}

TEST_CASE("a record that does not fit is left out whole, and the error is the system's") {
  const ddprun::test::TempDir directory;
  EventFile file(directory.path());
  const std::array scalar{Scalar{"loss/train", 1}};
  file.append(1, scalar);
  const auto path = std::filesystem::directory_iterator(directory.path())->path();
  const auto whole = std::filesystem::file_size(path);
  for (const std::size_t fits : {0, 5}) {
    const ddprun::test::FullDisk full(whole + fits);
    try {
      file.append(2, scalar);
      FAIL("a full disk");
    } catch (const std::system_error& error) {
      CHECK(error.code().value() == EFBIG);
      CHECK(error.what() == path.string() + ": File too large");
    }
    CHECK(std::filesystem::file_size(path) == whole);
  }
  file.append(3, scalar);  // there is space again
  CHECK(std::filesystem::file_size(path) == whole + event_record(0, 3, scalar).size());
}

}  // namespace
}  // namespace ddprun::trainer
