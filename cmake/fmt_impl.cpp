// fmt's own sources, compiled once: header-only, fmt costs every file that formats 3 s at -O3 and 7
// s under the sanitizers, and the packaged library is a shared one. What other files take from here
// depends on the version: Targets.cmake has the versions that are known.
#include <fmt/format-inl.h>

FMT_BEGIN_NAMESPACE
namespace detail {

template FMT_API auto dragonbox::to_decimal(float x) noexcept -> dragonbox::decimal_fp<float>;
template FMT_API auto dragonbox::to_decimal(double x) noexcept -> dragonbox::decimal_fp<double>;
template FMT_API locale_ref::locale_ref(const std::locale& loc);
template FMT_API auto locale_ref::get<std::locale>() const -> std::locale;
template FMT_API auto thousands_sep_impl(locale_ref) -> thousands_sep_result<char>;
template FMT_API auto decimal_point_impl(locale_ref) -> char;
#if FMT_VERSION >= 100000
template FMT_API void vformat_to(buffer<char>&, string_view, typename vformat_args<>::type,
                                 locale_ref);
#else
template void vformat_to<char>(buffer<char>&, string_view,
                               basic_format_args<FMT_BUFFER_CONTEXT(type_identity_t<char>)>,
                               locale_ref);
#endif

}  // namespace detail
FMT_END_NAMESPACE
