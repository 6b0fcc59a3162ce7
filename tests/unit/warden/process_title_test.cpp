#include "warden/own_process.hpp"

#include <array>
#include <catch2/catch.hpp>
#include <span>
#include <string>

using namespace ddprun::warden;

namespace {

/// A command line in memory as the kernel lays it out, with the environment behind it.
struct CommandLine {
  std::string memory = std::string("ddprun\0--gpus=none\0train\0HOME=/root\0", 36);
  std::array<char*, 4> argv{memory.data(), memory.data() + 7, memory.data() + 19, nullptr};
};

}  // namespace

TEST_CASE("the space for a title is that of the command line") {
  CommandLine line;
  CHECK(title_room(3, line.argv.data()).size() == 25);
  CHECK(title_room(0, line.argv.data()).empty());
  // Words that lie elsewhere are not ours to write over.
  char other[] = "train";
  line.argv[2] = other;
  CHECK(title_room(3, line.argv.data()).size() == 19);
}

TEST_CASE("a title takes the place of the command line and never touches what is behind it") {
  CommandLine line;
  set_process_title(title_room(3, line.argv.data()), "ddprun: agent of 7");
  CHECK(line.memory == std::string("ddprun: agent of 7\0\0\0\0\0\0\0HOME=/root\0", 36));
  set_process_title(std::span(line.memory).first(25), std::string(100, 'x'));
  CHECK(line.memory.substr(0, 25) == std::string(24, 'x') + '\0');
  CHECK(line.memory.substr(25) == std::string("HOME=/root\0", 11));
  set_process_title({}, "x");
}
