#include "binade/base/error.h"

#include "bindings.h"

namespace binade::python {
namespace {

// Owned by the module for the life of the interpreter.
PyObject* error_class = nullptr;

// What Python calls an argument of a described op, of which the engine names C++'s.
std::string python_argument(std::string_view op, const std::string& argument) {
  if (op.ends_with('_')) op.remove_suffix(1);
  const Signature* described = find_signature(op);
  if (described == nullptr || !described->is_plain()) return argument;
  for (const Parameter& one : described->parameters())
    if (one.name == argument) return std::string(python_name(*described, one));
  const bool is_first = argument == described->self && is_plain_in_python(*described);
  return is_first ? std::string(python_self(*described)) : argument;
}

Error in_python(const Error& error) {
  Facts facts = error.facts();
  facts.argument = python_argument(error.op(), facts.argument);
  return Error(error.op(), std::move(facts));
}

void translate(const std::exception_ptr& pointer, void*) {
  try {
    std::rethrow_exception(pointer);
  } catch (const Error& original) {
    const Error error = in_python(original);
    nb::object exception = nb::borrow(error_class)(error.what());
    const Facts& facts = error.facts();
    exception.attr("op") = error.op();
    exception.attr("argument") = facts.argument;
    exception.attr("expected") = facts.expected;
    exception.attr("found") = facts.found;
    exception.attr("hint") = facts.hint;
    exception.attr("details") = facts.details;
    PyErr_SetObject(error_class, exception.ptr());
  }
}

}  // namespace

void bind_errors(nb::module_& m) {
  error_class = PyErr_NewExceptionWithDoc(
      "binade.Error",
      "Bad input or misuse. The facts of the message are attributes: op, argument, expected, "
      "found, hint and details, empty if the message has none.",
      PyExc_RuntimeError, nullptr);
  m.attr("Error") = nb::borrow(error_class);
  nb::register_exception_translator(translate);
  m.def(
      "_fail",
      [](const std::string& op, const std::string& argument, const std::string& expected,
         const std::string& found, const std::string& hint, const std::string& details) {
        fail(op, {.argument = argument,
                  .expected = expected,
                  .found = found,
                  .hint = hint,
                  .details = details});
      },
      "op"_a, "argument"_a = "", "expected"_a = "", "found"_a = "", "hint"_a = "",
      "details"_a = "");
}

SharedObject::SharedObject(nb::handle object)
    : object_(new nb::handle(object.inc_ref()), [](nb::handle* held) {
        if (Py_IsInitialized()) {
          const nb::gil_scoped_acquire gil;
          held->dec_ref();
        }
        delete held;
      }) {}

}  // namespace binade::python
