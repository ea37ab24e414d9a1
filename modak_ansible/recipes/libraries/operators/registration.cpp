// Puts the operators in the place of PyTorch's own when the library is loaded: those that MODAK_OPERATORS names.
#include <c10/util/Exception.h>

#include <cstdlib>
#include <string>

#include "operators.h"

namespace modak {
namespace {

// PyTorch tells once that a kernel takes another's place, which is what is wanted here.
struct Quiet : c10::WarningHandler {
  void process(const c10::Warning& warning) override {
    if (warning.msg().find("Overriding a previously registered kernel") == std::string::npos) {
      c10::WarningHandler().process(warning);
    }
  }
};

bool is_wanted(const std::string& name) {
  const char* value = std::getenv("MODAK_OPERATORS");
  const std::string names = "," + std::string(value ? value : "all") + ",";
  return names == ",all," || names == ",," || names.find("," + name + ",") != std::string::npos;
}

torch::Library* registered() {
  Quiet quiet;
  c10::WarningUtils::WarningHandlerGuard guard(&quiet);
  auto* library =
      new torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::CPU, __FILE__, static_cast<uint32_t>(__LINE__));
  if (is_wanted("random")) register_random(*library);
  if (is_wanted("pooling")) register_pooling(*library);
  register_convolution(*library, is_wanted("winograd"), is_wanted("direct"));
  return library;
}

torch::Library* const library = registered();  // for as long as the process lives

}  // namespace
}  // namespace modak
