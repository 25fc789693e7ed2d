// What ways.py calls: functions, methods and operators that pybind11 binds.
#include <pybind11/operators.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <vector>

static double total(long count)
{
    volatile double sum = 0;
    for (long each = 0; each < count; each++)
        sum = sum + static_cast<double>(each) * 0.5;
    return sum;
}

struct Sums {
    long count;
    explicit Sums(long given) : count(given) { total(given); }
    double operator+(const Sums &) const { return total(count); }
};

PYBIND11_MODULE(pybind_ways, module)
{
    module.def("total", &total, pybind11::arg("count"));
    module.def("of_list", [](const std::vector<long> &values) {
        double sum = 0;
        for (long each : values)
            sum += static_cast<double>(each);
        return sum;
    });
    pybind11::class_<Sums>(module, "Sums")
        .def(pybind11::init<long>())
        .def("total", [](const Sums &sums) { return total(sums.count); })
        .def("__call__", [](const Sums &sums, long) { return total(sums.count); })
        .def_property_readonly("all", [](const Sums &sums) { return total(sums.count); })
        .def(pybind11::self + pybind11::self);
}
