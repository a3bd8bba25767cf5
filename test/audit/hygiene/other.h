/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef OTHER_H
#define OTHER_H
/* other - a library that happens to use the same names for other things. */
#ifdef __cplusplus
extern "C" {
#endif

extern int other_calls;

int region_free(int n);
int slab_get(int n);
int mempool_alloc(int n);
int quota_use(int n);

#ifdef __cplusplus
}

class RegionGuard
{
      public:
	explicit RegionGuard(int n) : n_(n)
	{
	}
	~RegionGuard()
	{
		other_calls += n_;
	}

      private:
	int n_;
};
#endif
#endif /* OTHER_H */
