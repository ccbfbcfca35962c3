// The Python binding: backends, streams and programs. Status codes become retrograd.errors here and
// nowhere else.
#include <dlfcn.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "retrograd/abi.h"

namespace py = pybind11;

namespace {

[[noreturn]] void raise(const char* kind, const std::string& where, const std::string& rule,
                        const std::string& got, const char* remedy) {
  py::object error = py::module_::import("retrograd.errors").attr(kind)(where, rule, got, remedy);
  PyErr_SetObject(py::type::of(error).ptr(), error.ptr());
  throw py::error_already_set();
}

void check(RetroStatus status, const std::string& where) {
  if (status.code == RETRO_OK) return;
  const std::string got = "status " + std::to_string(status.code);
  const char* remedy = status.code == RETRO_EXHAUSTED ? "free memory or plan a smaller run"
                       : status.code == RETRO_ABSENT
                           ? "see `retrograd inspect --device` for what this machine has"
                           : "check the arguments named here";
  raise(status.code == RETRO_FAILED ? "InternalError" : "DeviceError", where, status.text, got,
        remedy);
}

class Library {
 public:
  explicit Library(const std::string& path) {
    void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr)
      raise("DeviceError", "backend", "a backend library must load", dlerror(),
            "rebuild or reinstall retrograd");
    auto entry = reinterpret_cast<const RetroBackend* (*)()>(dlsym(handle, "retro_backend"));
    if (entry == nullptr)
      raise("DeviceError", "backend", "a backend library exports retro_backend", path,
            "reinstall retrograd");
    api_ = entry();
    if (api_->abi_version != RETRO_ABI_VERSION)
      raise("DeviceError", "backend",
            "a backend library speaks ABI version " + std::to_string(RETRO_ABI_VERSION),
            std::to_string(api_->abi_version), "rebuild or reinstall retrograd");
  }

  const RetroBackend& api() const { return *api_; }

  py::list rows() const {
    py::list rows;
    for (uint32_t i = 0; i < api_->n_rows; ++i) {
      const RetroRow& row = api_->rows[i];
      py::list fields;
      for (int32_t f = 0; f < row.n_fields; ++f)
        fields.append(py::make_tuple(row.fields[f].name, row.fields[f].kind, row.fields[f].offset,
                                     row.fields[f].n_bytes));
      rows.append(py::make_tuple(row.id, row.n_bytes, row.alignment, fields));
    }
    return rows;
  }

  py::dict digests() const {
    py::dict out;
    for (uint32_t i = 0; i < api_->n_rows; ++i) out[api_->rows[i].id] = api_->rows[i].digest;
    return out;
  }

 private:
  const RetroBackend* api_;
};

// Owns one RetroStream. Memory it hands out is an address; whoever asked releases it.
class Stream {
 public:
  Stream(std::shared_ptr<Library> library, int threads, const std::optional<std::string>& isa,
         const std::optional<std::string>& blas)
      : library_(std::move(library)) {
    const RetroOptions options = {threads, 0, isa ? isa->c_str() : nullptr,
                                  blas ? blas->c_str() : nullptr};
    check(api().open(&options, &stream_), api().name);
  }
  ~Stream() { api().close(stream_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  const RetroBackend& api() const { return library_->api(); }
  RetroStream* raw() const { return stream_; }

  py::dict probe() const {
    RetroProbe probe = {};
    check(api().probe(stream_, &probe), "probe");
    py::dict out;
    out["device"] = probe.device;
    out["isa"] = probe.isa;
    out["blas"] = probe.blas;
    out["threads"] = probe.threads;
    out["has_faults"] = probe.has_faults != 0;
    out["compiler"] = probe.compiler;
    out["compiler_version"] = probe.compiler_version;
    out["flags"] = probe.flags;
    return out;
  }

  py::dict counters() const {
    RetroCounters c = {};
    check(api().counters(stream_, &c), "counters");
    py::dict out;
    out["launches"] = c.launches;
    out["allocations"] = c.allocations;
    out["allocated_bytes"] = c.allocated_bytes;
    out["host_to_device_bytes"] = c.host_to_device_bytes;
    out["device_to_host_bytes"] = c.device_to_host_bytes;
    out["synchronisations"] = c.synchronisations;
    return out;
  }

  uint64_t allocate(size_t n_bytes) const {
    void* memory = nullptr;
    check(api().allocate(stream_, n_bytes, &memory),
          "allocate " + std::to_string(n_bytes) + " bytes");
    return reinterpret_cast<uint64_t>(memory);
  }

  void release(uint64_t address) const { api().release(stream_, reinterpret_cast<void*>(address)); }

  void to_device(uint64_t address, const py::buffer& source) const {
    const py::buffer_info info = source.request();
    check(api().copy(stream_, reinterpret_cast<void*>(address), info.ptr, info.size * info.itemsize,
                     RETRO_TO_DEVICE),
          "copy");
  }

  void to_host(uint64_t address, const py::buffer& target) const {
    const py::buffer_info info = target.request(true);
    check(api().copy(stream_, info.ptr, reinterpret_cast<const void*>(address),
                     info.size * info.itemsize, RETRO_TO_HOST),
          "copy");
  }

  void launch(uint32_t row, const py::bytes& arguments) const {
    const std::string text = arguments;
    if (row >= api().n_rows || text.size() != static_cast<size_t>(api().rows[row].n_bytes))
      raise("InternalError", "launch", "an argument struct has the size its row declares",
            std::to_string(text.size()), "report this");
    RetroStatus status;
    {
      py::gil_scoped_release unlocked;
      status = api().launch(stream_, row, text.data());
    }
    check(status, api().rows[row].id);
  }

  void set_fault(const std::optional<std::string>& fault) const {
    check(api().set_fault(stream_, fault ? fault->c_str() : nullptr), "fault");
  }

 private:
  std::shared_ptr<Library> library_;
  RetroStream* stream_ = nullptr;
};

// A bound program: launches in order, with every address already in place. One call runs a range of
// them.
class Program {
 public:
  Program(std::shared_ptr<Stream> stream, const std::vector<uint32_t>& rows,
          const std::vector<py::bytes>& arguments)
      : stream_(std::move(stream)), rows_(rows) {
    const RetroBackend& api = stream_->api();
    for (size_t i = 0; i < rows.size(); ++i) {
      const std::string text = arguments.at(i);
      if (rows[i] >= api.n_rows || text.size() != static_cast<size_t>(api.rows[rows[i]].n_bytes))
        raise("InternalError", "program", "an argument struct has the size its row declares",
              std::to_string(text.size()), "report this");
      // 8-byte words keep every field of the struct aligned.
      std::vector<uint64_t> words((text.size() + 7) / 8);
      std::copy(text.begin(), text.end(), reinterpret_cast<char*>(words.data()));
      arguments_.push_back(std::move(words));
    }
  }

  size_t size() const { return rows_.size(); }

  void run(size_t begin, size_t end) const { run_timed(begin, end, nullptr); }

  std::vector<double> profile(size_t begin, size_t end) const {
    std::vector<double> seconds;
    run_timed(begin, end, &seconds);
    return seconds;
  }

 private:
  void run_timed(size_t begin, size_t end, std::vector<double>* seconds) const {
    if (begin > end || end > rows_.size())
      raise("InternalError", "program", "a range lies inside the program",
            std::to_string(begin) + ".." + std::to_string(end), "report this");
    const RetroBackend& api = stream_->api();
    RetroStatus status = {RETRO_OK, nullptr};
    size_t i = begin;
    {
      py::gil_scoped_release unlocked;
      for (; i < end; ++i) {
        const auto start = std::chrono::steady_clock::now();
        status = api.launch(stream_->raw(), rows_[i], arguments_[i].data());
        if (status.code != RETRO_OK) break;
        if (seconds != nullptr) {
          status = api.synchronise(stream_->raw());
          if (status.code != RETRO_OK) break;
          seconds->push_back(
              std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
        }
      }
    }
    if (status.code != RETRO_OK) check(status, api.rows[rows_[i]].id);
  }

  std::shared_ptr<Stream> stream_;
  std::vector<uint32_t> rows_;
  std::vector<std::vector<uint64_t>> arguments_;
};

}  // namespace

PYBIND11_MODULE(_native, m) {
  m.doc() = "Backends, streams and programs. See _native.pyi for the contract.";
  py::class_<Library, std::shared_ptr<Library>>(m, "Library")
      .def(py::init<const std::string&>(), py::arg("path"))
      .def_property_readonly("name", [](const Library& self) { return self.api().name; })
      .def("rows", &Library::rows)
      .def("digests", &Library::digests);
  py::class_<Stream, std::shared_ptr<Stream>>(m, "Stream")
      .def(py::init<std::shared_ptr<Library>, int, std::optional<std::string>,
                    std::optional<std::string>>(),
           py::arg("library"), py::kw_only(), py::arg("threads"), py::arg("isa") = py::none(),
           py::arg("blas") = py::none())
      .def("probe", &Stream::probe)
      .def("counters", &Stream::counters)
      .def("allocate", &Stream::allocate, py::arg("n_bytes"))
      .def("release", &Stream::release, py::arg("address"))
      .def("to_device", &Stream::to_device, py::arg("address"), py::arg("source"))
      .def("to_host", &Stream::to_host, py::arg("address"), py::arg("target"))
      .def("launch", &Stream::launch, py::arg("row"), py::arg("arguments"))
      .def("set_fault", &Stream::set_fault, py::arg("fault"));
  py::class_<Program>(m, "Program")
      .def(py::init<std::shared_ptr<Stream>, const std::vector<uint32_t>&,
                    const std::vector<py::bytes>&>(),
           py::arg("stream"), py::arg("rows"), py::arg("arguments"))
      .def("__len__", &Program::size)
      .def("run", &Program::run, py::arg("begin"), py::arg("end"))
      .def("profile", &Program::profile, py::arg("begin"), py::arg("end"));
}
