// Files of data, plain or gzipped, and each kind of damage.
#include "trainer/data/read_file.hpp"

#include <sys/stat.h>
#include <zlib.h>

#include <catch2/catch.hpp>
#include <fstream>

#include "tests/support/temp_dir.hpp"
#include "trainer/error.hpp"

namespace ddprun::trainer {
namespace {

using Bytes = std::vector<std::uint8_t>;
using Catch::Matchers::Contains;

/// Bytes that count up.
Bytes counted(std::size_t size) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::uint8_t>(i % 251);
  return bytes;
}

void write_bytes(const std::filesystem::path& path, const Bytes& bytes) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
}

Bytes gzip(const std::filesystem::path& path, const Bytes& bytes) {
  const gzFile file = gzopen(path.c_str(), "wb");
  gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
  gzclose(file);
  std::ifstream in(path, std::ios::binary);
  return Bytes(std::istreambuf_iterator<char>(in), {});
}

TEST_CASE("plain and gzipped files read the same") {
  const test::TempDir directory;
  const Bytes images = counted(40);
  write_bytes(directory / "plain", images);
  gzip(directory / "packed.gz", images);
  CHECK(read_file_or_gzip(directory / "plain") == images);
  CHECK(read_file_or_gzip(directory / "packed.gz") == images);
}

TEST_CASE("what is held of a large file is its bytes, and not twice as many") {
  const test::TempDir directory;
  const Bytes images(5'000'000, 7);
  write_bytes(directory / "plain", images);
  gzip(directory / "packed.gz", images);
  for (const char* name : {"plain", "packed.gz"}) {
    const Bytes read = read_file_or_gzip(directory / name);
    CHECK(read == images);
    CHECK(read.capacity() < images.size() + 1'100'000);
  }
}

TEST_CASE("a gzip file that is cut short or damaged is named with the offset reached") {
  const test::TempDir directory;
  Bytes packed = gzip(directory / "packed.gz", counted(2416));
  SECTION("cut short") {
    packed.resize(packed.size() - 12);
    write_bytes(directory / "cut.gz", packed);
    CHECK_THROWS_WITH(read_file_or_gzip(directory / "cut.gz"),
                      Contains("cut.gz: offset") && Contains("cut short"));
  }
  SECTION("damaged") {
    packed[packed.size() / 2] ^= 0xff;
    packed[packed.size() - 6] ^= 0xff;  // the checksum at the end
    write_bytes(directory / "bad.gz", packed);
    CHECK_THROWS_WITH(read_file_or_gzip(directory / "bad.gz"),
                      Contains("bad.gz: offset") && Contains("damaged"));
  }
}

TEST_CASE("a file that unpacks to more than is allowed is refused before all of it is unpacked") {
  const test::TempDir directory;
  gzip(directory / "bomb.png", Bytes(10'000'000, 0));
  CHECK_THROWS_WITH(read_file_or_gzip(directory / "bomb.png", 3'000'000),
                    Contains("bomb.png: offset ") && Contains("more than 3000000 bytes"));
  CHECK(read_file_or_gzip(directory / "bomb.png", 10'000'000).size() == 10'000'000);
}

TEST_CASE("a pipe is refused, not waited for") {
  const test::TempDir directory;
  REQUIRE(mkfifo((directory / "a.png").c_str(), 0600) == 0);
  CHECK_THROWS_WITH(read_file_or_gzip(directory / "a.png"), Contains("a.png: not a regular file"));
  CHECK(read_start(directory / "a.png", 8).empty());
}

TEST_CASE("the start of a file is read, plain or gzipped, and as much as there is") {
  const test::TempDir directory;
  write_bytes(directory / "plain", counted(40));
  gzip(directory / "packed.gz", counted(5));
  CHECK(read_start(directory / "plain", 8) == counted(8));
  CHECK(read_start(directory / "packed.gz", 8) == counted(5));
  CHECK(read_start(directory / "absent", 8).empty());
}

TEST_CASE("a file that is not there is named") {
  CHECK_THROWS_WITH(read_file_or_gzip("/nonexistent/images"),
                    Contains("/nonexistent/images: No such file"));
}

}  // namespace
}  // namespace ddprun::trainer
