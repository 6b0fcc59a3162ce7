// Lists of hosts as Slurm writes them: `a[1-3,07-09]-ib,b`. Pure. A few bytes may name a million
// hosts, so a list is never written out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <boost/system/result.hpp>

namespace ddprun::launcher {

class Hostlist {
 public:
  static constexpr std::size_t kBytesMax = 256 * 1024;  ///< an environment variable has up to half
  static constexpr std::uint64_t kHostsMax = 1'000'000;
  static constexpr std::uint64_t kRangeMax = 65'536;  ///< hosts of one range; Slurm's limit
  static constexpr std::size_t kNameBytesMax = 255;

  /// At least one host; blanks and commas separate them. The error is why the text is no such list,
  /// as the end of a message: "'[' at character 2 is not closed". Characters count from 1.
  static boost::system::result<Hostlist, std::string> parse(std::string_view text);

  /// How many hosts; one that is named twice counts twice.
  [[nodiscard]] std::uint64_t size() const { return hosts_; }
  /// The name in that place, in Slurm's order: of several brackets the last one counts fastest,
  /// then the first one, the second one and so on. (So scontrol of Slurm 22 has it.)
  /// Requires place < size().
  [[nodiscard]] std::string name(std::uint64_t place) const;

 private:
  friend class HostlistParser;

  /// `07-09`; of one number the last is the first.
  struct Range {
    std::uint64_t first = 0;
    std::uint64_t last = 0;
    std::uint32_t digits = 1;  // at least
  };
  /// Letters, then a bracket or nothing: a[1-3,07-09].
  struct Part {
    std::uint32_t text_begin = 0;
    std::uint32_t text_end = 0;
    std::uint32_t range_begin = 0;
    std::uint32_t range_end = 0;  // range_begin: there is no bracket
    std::uint64_t values = 1;
  };
  /// What stands between two commas.
  struct Entry {
    std::uint32_t part_begin = 0;
    std::uint32_t part_end = 0;
    std::uint64_t place = 0;  // of its first host
  };

  [[nodiscard]] std::string value(const Part& part, std::uint64_t place) const;

  std::string text_;
  std::vector<Range> ranges_;
  std::vector<Part> parts_;
  std::vector<Entry> entries_;
  std::uint64_t hosts_ = 0;
};

}  // namespace ddprun::launcher
