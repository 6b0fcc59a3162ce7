// Which files hold a secret, and what is wrong with the others.
#include "base/secret_file.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <fstream>

#include "tests/support/temp_dir.hpp"

using namespace ddprun;

namespace {

std::string written(const test::TempDir& dir, const std::string& text, mode_t mode = 0600) {
  const std::string path = dir / "secret";
  std::ofstream(path, std::ios::binary) << text;
  REQUIRE(chmod(path.c_str(), mode) == 0);
  return path;
}

/// The error, which names the file.
std::string why_not(const std::string& path) {
  const auto secret = read_secret_file(path);
  REQUIRE(secret.has_error());
  CHECK(secret.error().find(path) != std::string::npos);
  return secret.error();
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a secret is what its file holds without the blanks and line ends around it") {
  const test::TempDir dir;
  const std::string secret = "sixteen bytes or more";
  CHECK(*read_secret_file(written(dir, secret)) == secret);
  CHECK(*read_secret_file(written(dir, "\n " + secret + " \r\n")) == secret);
  const std::string binary("\0\x01\xff zero and more\0x", 20);
  CHECK(*read_secret_file(written(dir, binary)) == binary);
  CHECK(*read_secret_file(written(dir, "\xef\xbb\xbf" + secret + "\r\n")) == secret);
  CHECK(*read_password_file(written(dir, "\xef\xbb\xbf pass word\r\n")) == " pass word");
  CHECK(*read_secret_file(written(dir, secret, 0400)) == secret);
}

TEST_CASE("a link to a secret file is followed") {
  const test::TempDir dir;
  const std::string path = written(dir, "sixteen bytes or more");
  const std::string link = dir / "link";
  REQUIRE(symlink(path.c_str(), link.c_str()) == 0);
  CHECK(read_secret_file(link).has_value());
}

TEST_CASE("a secret file to which other users have access is refused with the remedy") {
  const test::TempDir dir;
  const mode_t mode = GENERATE(0640, 0604, 0620, 0601, 0777);
  const std::string path = written(dir, "sixteen bytes or more", mode);
  CHECK(contains(why_not(path), "run chmod 600 " + path));
}

TEST_CASE("a secret file of another user is refused") {
  if (geteuid() != 0) {
    WARN("only root can give a file away");
    return;
  }
  const test::TempDir dir;
  const std::string path = written(dir, "sixteen bytes or more");
  REQUIRE(chown(path.c_str(), 12345, 12345) == 0);
  CHECK(contains(why_not(path), "belongs to user 12345"));
}

TEST_CASE("a pipe or folder is no secret file, and reading it does not wait for a writer") {
  const test::TempDir dir;
  CHECK(contains(why_not(dir / "absent"), "No such file or directory"));
  CHECK(contains(why_not(dir.path()), "is not a regular file"));
  const std::string pipe = dir / "pipe";
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  CHECK(contains(why_not(pipe), "is not a regular file"));
}

TEST_CASE("a secret has 16 to 4096 bytes") {
  const test::TempDir dir;
  CHECK(contains(why_not(written(dir, "")), "has 0 bytes"));
  CHECK(contains(why_not(written(dir, std::string(15, 's') + "\n\n\n")), "has 15 bytes"));
  CHECK(read_secret_file(written(dir, std::string(16, 's') + "\n")).has_value());
  CHECK(read_secret_file(written(dir, std::string(4096, 's') + "\r\n")).has_value());
  CHECK(contains(why_not(written(dir, std::string(4097, 's'))), "is too long"));
  CHECK(contains(why_not(written(dir, std::string(1'000'000, 's'))), "is too long"));
  // No part of the secret is shown.
  CHECK_FALSE(contains(why_not(written(dir, "hunter2")), "hunter2"));
}
