cdef double innermost(double x, long n):
    cdef long i
    cdef double s = 0
    for i in range(n):
        s += x * i % 7.0
    return s

cdef class Till:
    cdef double total
    cpdef double ring(self, double x, long n):
        self.total += innermost(x, n)
        return self.total

def sell(n):
    till = Till()
    return till.ring(3.0, n)
