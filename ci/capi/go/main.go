// A program on grocksdb: column families, batches, iterators, a merge operator, a comparator, a
// checkpoint and a snapshot. Exits with an error if something is not as in RocksDB.
package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"github.com/linxGnu/grocksdb"
)

// join joins values and operands with commas.
type join struct{}

func (join) Name() string { return "program.Join" }

func (join) FullMerge(key, existing []byte, operands [][]byte) ([]byte, bool) {
	all := operands
	if existing != nil {
		all = append([][]byte{existing}, operands...)
	}
	return bytes.Join(all, []byte(",")), true
}

func fail(err error) {
	if err != nil {
		panic(err)
	}
}

func check(ok bool, what string) {
	if !ok {
		panic(what)
	}
}

func get(db *grocksdb.DB, ro *grocksdb.ReadOptions, key string) string {
	value, err := db.Get(ro, []byte(key))
	fail(err)
	defer value.Free()
	if !value.Exists() {
		return "none"
	}
	return string(value.Data())
}

func main() {
	directory, err := os.MkdirTemp("", "grocksdb")
	fail(err)
	defer os.RemoveAll(directory)
	path := filepath.Join(directory, "db")

	opts := grocksdb.NewDefaultOptions()
	opts.SetCreateIfMissing(true)
	opts.SetCreateIfMissingColumnFamilies(true)
	opts.SetMergeOperator(join{})
	backwards := grocksdb.NewDefaultOptions()
	backwards.SetComparator(grocksdb.NewComparator("program.Backwards", func(a, b []byte) int {
		return bytes.Compare(b, a)
	}))
	names := []string{"default", "backwards"}
	db, families, err := grocksdb.OpenDbColumnFamilies(opts, path, names, []*grocksdb.Options{opts, backwards})
	fail(err)
	wo, ro := grocksdb.NewDefaultWriteOptions(), grocksdb.NewDefaultReadOptions()

	fail(db.Put(wo, []byte("a"), []byte("1")))
	fail(db.Put(wo, []byte("empty"), nil))
	fail(db.Merge(wo, []byte("a"), []byte("2")))
	check(get(db, ro, "a") == "1,2", "merge")
	check(get(db, ro, "empty") == "", "empty value")
	check(get(db, ro, "none") == "none", "missing key")

	batch := grocksdb.NewWriteBatch()
	batch.Put([]byte("b"), []byte("3"))
	batch.Delete([]byte("empty"))
	batch.PutCF(families[1], []byte("x"), []byte("4"))
	batch.PutCF(families[1], []byte("y"), []byte("5"))
	fail(db.Write(wo, batch))
	batch.Destroy()

	it := db.NewIteratorCF(ro, families[1])
	order := ""
	for it.SeekToFirst(); it.Valid(); it.Next() {
		key := it.Key()
		order += string(key.Data())
		key.Free()
	}
	fail(it.Err())
	it.Close()
	check(order == "yx", "order "+order)

	snapshot := db.NewSnapshot()
	fail(db.Put(wo, []byte("b"), []byte("6")))
	old := grocksdb.NewDefaultReadOptions()
	old.SetSnapshot(snapshot)
	check(get(db, old, "b") == "3", "snapshot")
	check(get(db, ro, "b") == "6", "newest value")
	old.Destroy()
	db.ReleaseSnapshot(snapshot)

	checkpoint, err := db.NewCheckpoint()
	fail(err)
	copied := filepath.Join(directory, "copy")
	fail(checkpoint.CreateCheckpoint(copied, 0))
	checkpoint.Destroy()
	for _, family := range families {
		family.Destroy()
	}
	db.Close()

	db, families, err = grocksdb.OpenDbForReadOnlyColumnFamilies(opts, copied, names, []*grocksdb.Options{opts, backwards}, false)
	fail(err)
	check(get(db, ro, "b") == "6", "checkpoint")
	for _, family := range families {
		family.Destroy()
	}
	db.Close()
	fmt.Println("ok")
}
