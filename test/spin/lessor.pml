/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lessor - the handshake of quota_recall.c between two owners and a third
 * thread that charges, releases, lowers and raises the limit.
 *
 * Stores of an owner's fast path wait in a buffer, oldest first, until the
 * process `memory` lets one out: that is what x86 does, and all that the
 * barrier has to mend. Everything under the lock is seen at once. One unit is
 * one byte here; batches are left out, as they only hide recalls.
 *
 *   never over          low[i] <= held[i], and the sum of low and direct is
 *                       within total, after each step that grants anything
 *   no false refusal    when a call is refused, there was an instant in it at
 *                       which what was leased, direct and the request were
 *                       above total. A lease under way may count as leased
 *                       there, but is then promised: it must not be refused.
 *
 * Variants: FENCED (owners fence themselves: no buffer). Mutants, which must
 * fail: NO_BARRIER (the recaller counts at once), NO_BEFORE (takes any sum
 * for granted), NO_RECOUNT (refuses after one count), OPEN_END (end_lease
 * does not look whether it is closed).
 */
#define N      2
#define NOBODY N
#ifndef TOTAL
# define TOTAL 2
#endif

byte total = TOTAL;
byte free = TOTAL; /* what nobody has taken */
byte direct;       /* charged by the third thread */
bool lock;

/* A lessor: the owner's two words, then those under the lock. */
byte leased[N], before[N];
byte held[N], limit[N], counted[N];
bool closed[N];

/* For the properties: what an owner has for certain, what it may still be
 * said to have, the sum a lease under way wants. */
byte low[N], up[N], want[N];
bool promised[N];

/* The instant at which a recaller read free. */
byte then_up[N], then_want[N], then_direct, then_total;

#define LEASED true
#define BEFORE false
/* which word, its value, by how much `up` falls when it is seen */
chan buffer[N] = [3] of { bool, byte, byte };

inline let_out(i)
{
	buffer[i] ? word, value, fall;
	if
	:: word == LEASED -> leased[i] = value; up[i] = up[i] - fall
	:: else -> before[i] = value
	fi;
	word = 0;
	value = 0;
	fall = 0
}

active proctype memory()
{
	bool word;
	byte value, fall;
end:	do
	:: d_step { nempty(buffer[0]) -> let_out(0) }
	:: d_step { nempty(buffer[1]) -> let_out(1) }
	od
}

inline never_over()
{
	assert(low[0] <= held[0] && low[1] <= held[1]);
	assert(low[0] + low[1] + direct <= total)
}

inline take_lock(me)
{
	/* Taking a lock is a barrier. */
	atomic { !lock && empty(buffer[me]) -> lock = true }
}

/* counted[o] falls to what o has leased, or may have. */
inline count(o)
{
	c = leased[o];
#ifndef NO_BEFORE
	if
	:: c > counted[o] -> c = before[o]
	:: else
	fi;
#else
	if
	:: c > held[o] -> c = held[o]
	:: else
	fi;
#endif
	counted[o] = c;
	c = 0
}

/* What happens in the same step as a grab. */
inline effect(need)
{
	if
	:: self == NOBODY && lowers -> total = total - need
	:: self == NOBODY && !lowers -> direct = direct + need
	:: else
	fi
}

inline grab(need)
{
	d_step {
		if
		:: free + idle >= need ->
			if
			:: need > idle ->
				free = free - (need - idle);
				idle = 0
			:: else ->
				idle = idle - need
			fi;
			found = true;
			effect(need)
		:: else ->
			then_up[0] = up[0];
			then_up[1] = up[1];
			then_want[0] = want[0];
			then_want[1] = want[1];
			then_direct = direct;
			then_total = total
		fi
	}
}

/* A request of `size` for self was refused: what proves it? sum is what the
 * others had when free was read, plus the request. */
inline prove(size)
{
	d_step {
		sum = then_direct + (lowers -> 0 : size);
		i = 0;
		do
		:: i < N && i == self ->
			sum = sum + then_up[i];
			i++
		:: i < N && i != self && counted[i] > then_up[i] ->
			assert(counted[i] <= then_want[i]);
			promised[i] = true;
			sum = sum + counted[i];
			i++
		:: i < N && i != self && counted[i] <= then_up[i] ->
			sum = sum + then_up[i];
			i++
		:: else -> break
		od;
		assert(sum > then_total - (lowers -> size : 0));
		i = 0;
		sum = 0
	}
}

#define OTHERS(what)                                                           \
	i = 0;                                                                 \
	do                                                                     \
	:: i < N && i != self -> what; i++                                     \
	:: i < N && i == self -> i++                                           \
	:: i == N -> break                                                     \
	od;                                                                    \
	i = 0

/* Each owner sees its own words only, so one step for all is as good. */
inline close()
{
	d_step {
		OTHERS(counted[i] = held[i]; limit[i] = 0; closed[i] = true)
	}
}

inline barrier(o)
{
	d_step {
		do
		:: o != self && nempty(buffer[o]) -> let_out(o)
		:: o == self || empty(buffer[o]) -> break
		od
	}
}

inline count_all(sum_idle)
{
	if
	:: self != 0 -> count(0)
	:: else
	fi;
	if
	:: self != 1 -> count(1)
	:: else
	fi;
	d_step {
		sum_idle = 0;
		OTHERS(sum_idle = sum_idle + held[i] - counted[i])
	}
}

/* What is left of the idle credit goes back; forgets what is not needed, so
 * that equal states are equal. */
inline reopen()
{
	d_step {
		OTHERS(
			if
			:: found -> held[i] = counted[i]
			:: else
			fi;
			limit[i] = held[i];
			closed[i] = false);
		free = free + (found -> idle : 0);
		idle = 0;
		again = 0;
		counted[0] = 0; counted[1] = 0;
		then_up[0] = 0; then_up[1] = 0;
		then_want[0] = 0; then_want[1] = 0;
		then_direct = 0; then_total = 0
	}
}

/* Under the lock: finds `need`, what is missing of a request of `size`. */
inline find(need, size)
{
	found = false;
	grab(need);
	if
	:: found
	:: else ->
		close();
#ifndef NO_BARRIER
		barrier(0);
		barrier(1);
#endif
		count_all(idle);
		do
		:: grab(need);
			if
			:: found -> break
			:: else
			fi;
#ifdef NO_RECOUNT
			prove(size);
			break;
#endif
			count_all(again);
			if
			:: again == idle -> prove(size); break
			:: else -> idle = again
			fi
		od;
		reopen()
	fi
}

inline granted()
{
	low[self] = low[self] + n;
	up[self] = up[self] + n;
	mine = mine + n;
	want[self] = 0;
	promised[self] = false;
	never_over()
}

inline lease()
{
	if
	:: n = 1
	:: n = 2
	fi;
#ifdef FENCED
	before[self] = mine;
	atomic { leased[self] = mine + n; want[self] = mine + n }
#else
	atomic {
		len(buffer[self]) <= 1;
		buffer[self] ! BEFORE, mine, 0;
		buffer[self] ! LEASED, mine + n, 0;
		want[self] = mine + n
	}
#endif
	if
	:: atomic { mine + n <= limit[self] -> granted() }
	:: atomic { mine + n > limit[self] -> skip }
		take_lock(self);
		found = true;
		if
		:: mine + n > held[self] ->
			lack = mine + n - held[self];
			find(lack, n);
			if
			:: found -> held[self] = mine + n
			:: else
			fi
		:: else
		fi;
		limit[self] = held[self];
		if
		:: found -> atomic { granted() }
		:: else -> atomic {
			assert(!promised[self]);
			leased[self] = mine;
			want[self] = 0 }
		fi;
		lock = false
	fi;
	n = 0;
	lack = 0;
	found = false
}

inline end_lease()
{
	if
	:: n = 1
	:: n = mine
	fi;
	atomic {
#ifdef FENCED
		leased[self] = mine - n;
		up[self] = up[self] - n;
#else
		nfull(buffer[self]);
		buffer[self] ! LEASED, mine - n, n;
#endif
		mine = mine - n;
		low[self] = low[self] - n
	}
	n = 0;
#ifndef OPEN_END
	if
	:: closed[self] ->
		take_lock(self);
		lock = false
	:: !closed[self]
	fi
#endif
}

proctype owner(byte self)
{
	byte mine, n, lack, c, i, idle, again, sum;
	byte value, fall;
	bool found, word, lowers;
end:	do
	:: mine + 2 <= TOTAL -> lease()
	:: mine > 0 -> end_lease()
	od
}

proctype third(byte self)
{
	byte n, c, i, idle, again, sum;
	byte value, fall;
	bool found, word, lowers;
end:	do
	/* A charge, by the fast path or under the lock. */
	:: direct == 0 ->
		if
		:: n = 1
		:: n = TOTAL - 1
		fi;
		if
		:: atomic { free >= n -> free = free - n; direct = n }
		:: atomic { free < n && !lock -> lock = true }
			find(n, n);
			lock = false
		fi;
		atomic { never_over(); found = false; n = 0 }
	:: direct > 0 ->
		atomic { free = free + direct; direct = 0 }
	:: total == TOTAL ->
		atomic { !lock -> lock = true }
		lowers = true;
		find(1, 1);
		lock = false;
		atomic { never_over(); found = false; lowers = false }
	:: total < TOTAL ->
		atomic { !lock -> total = total + 1; free = free + 1 }
	od
}

init
{
	atomic {
		run owner(0);
		run owner(1);
		run third(NOBODY)
	}
}
