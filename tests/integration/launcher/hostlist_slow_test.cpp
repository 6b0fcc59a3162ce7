// Lists of hosts as Slurm's own program reads them. Skipped without it (package slurm-client).
#include <catch2/catch.hpp>
#include <cstdio>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "launcher/cluster/hostlist.hpp"
#include "tests/support/skip.hpp"
#include "tests/support/temp_dir.hpp"

using namespace ddprun::test;
using ddprun::launcher::Hostlist;

namespace {

/// Lists that Slurm 22 knows: it has no letters behind the last bracket of a name, and at most
/// three brackets.
class Lists {
 public:
  std::string next() {
    std::string list;
    for (std::size_t entries = 1 + below(5); entries > 0; --entries)
      list += (list.empty() ? "" : ",") + entry();
    return list;
  }

 private:
  std::size_t below(std::size_t limit) { return random_() % limit; }

  std::string letters() {
    static constexpr std::string_view kLetters = "abcdnxyz-_.";
    std::string text(1, kLetters[below(8)]);
    for (std::size_t more = below(5); more > 0; --more) text += kLetters[below(kLetters.size())];
    return text;
  }

  std::string number(std::size_t value) {
    std::string digits = std::to_string(value);
    if (below(2) == 0) digits.insert(0, below(4), '0');
    return digits;
  }

  std::string bracket() {
    std::string text = "[";
    for (std::size_t ranges = 1 + below(3); ranges > 0; --ranges) {
      const std::size_t first = below(below(2) == 0 ? 12 : 1200);
      text += number(first);
      if (below(2) == 0) text += "-" + number(first + below(8));
      if (ranges > 1) text += ",";
    }
    return text + "]";
  }

  std::string entry() {
    std::string text = letters();
    if (below(3) == 0) return text + (below(2) == 0 ? number(below(100)) : "");
    for (std::size_t brackets = 1 + below(3); brackets > 0; --brackets) {
      text += bracket();
      if (brackets > 1) text += letters();
    }
    return text;
  }

  std::mt19937 random_{20261126};
};

std::string output_of(const std::string& command) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), &pclose);
  REQUIRE(pipe != nullptr);
  std::string text;
  std::vector<char> buffer(1 << 16);
  while (const std::size_t count = fread(buffer.data(), 1, buffer.size(), pipe.get()))
    text.append(buffer.data(), count);
  return text;
}

}  // namespace

TEST_CASE("generated lists of hosts are read as scontrol show hostnames reads them") {
  if (output_of("command -v scontrol").empty())
    skip("no scontrol: scripts/install-deps --cluster installs it");
  const TempDir folder;
  // Without a configuration scontrol looks for one in the network.
  std::ofstream(folder / "slurm.conf") << "ClusterName=test\nSlurmctldHost=localhost\n"
                                          "AuthType=auth/none\nNodeName=a\n";
  Lists lists;
  std::vector<std::string> texts;
  for (int count = 10'000; count > 0; --count) texts.push_back(lists.next());
  std::ofstream file(folder / "lists");
  for (const std::string& text : texts) file << text << '\n';
  file.close();
  const std::string slurm =
      output_of("export SLURM_CONF=" + (folder / "slurm.conf").string() +
                "; while read -r list; do scontrol show hostnames \"$list\" 2>&1; echo =; done <" +
                (folder / "lists").string());

  std::size_t at = 0;
  for (const std::string& text : texts) {
    const std::size_t end = slurm.find("=\n", at);
    REQUIRE(end != std::string::npos);
    const auto list = Hostlist::parse(text);
    if (!list) FAIL(text << ": " << list.error());
    std::string ours;
    for (std::uint64_t place = 0; place < list->size(); ++place) ours += list->name(place) + "\n";
    if (ours != slurm.substr(at, end - at))
      FAIL(text << "\nddprun: " << ours << "\nscontrol: " << slurm.substr(at, end - at));
    at = end + 2;
  }
  CHECK(at == slurm.size());
}
