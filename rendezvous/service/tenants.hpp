// Which jobs of one service belong together, by the secrets that it has: a secret for one run id,
// or for all that begin alike. Pure.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <string_view>

namespace ddprun::rdzv {

/// Ends the name of a tenant that stands for all run ids which begin with what is before it.
inline constexpr char kAnyEnd = '*';

/// Whether it is no run id but stands for many: `PREFIX*`. The empty text stands for all.
[[nodiscard]] inline bool names_many(std::string_view run_id) {
  return run_id.empty() || run_id.ends_with(kAnyEnd);
}
/// What the run ids begin with for which it stands, where it `names_many`.
[[nodiscard]] inline std::string_view common_begin(std::string_view name) {
  return name.substr(0, name.empty() ? 0 : name.size() - 1);
}

/// What one tenant may have at one time.
struct TenantLimits {
  std::size_t jobs_max = 1'000;    ///< that are not over
  std::size_t nodes_max = 10'000;  ///< of all its jobs
};

class Tenants {
 public:
  Tenants() = default;
  /// Each name is a run id, or `PREFIX*`; `*` alone is for all ids that no other name fits.
  explicit Tenants(std::set<std::string, std::less<>> names) : names_(std::move(names)) {}

  /// The name that fits a run id, or a text that names many, best: itself, then the longest prefix.
  /// Valid as long as this object; null: none fits.
  [[nodiscard]] const std::string* of(std::string_view run_id) const;

  [[nodiscard]] const std::set<std::string, std::less<>>& names() const { return names_; }
  bool operator==(const Tenants&) const = default;

 private:
  std::set<std::string, std::less<>> names_;
};

}  // namespace ddprun::rdzv
