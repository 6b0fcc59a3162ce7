// What cmake/fmt_impl.cpp compiles once. fmt 9 does not say so itself, and 5 s of every file that
// logs went into it.
#pragma once

#include <fmt/format.h>

#if FMT_VERSION >= 90000 && FMT_VERSION < 100000
FMT_BEGIN_NAMESPACE
namespace detail {

extern template void vformat_to<char>(buffer<char>&, string_view,
                                      basic_format_args<FMT_BUFFER_CONTEXT(type_identity_t<char>)>,
                                      locale_ref);

}  // namespace detail
FMT_END_NAMESPACE
#endif
