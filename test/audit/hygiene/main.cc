// SPDX-License-Identifier: BSD-2-Clause
int ours();
int theirs();

int main()
{
	return ours() + 2 * theirs() + 4 * ours();
}
