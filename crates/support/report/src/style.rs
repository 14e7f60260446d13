//! Colours and layout of a page.

/// Number of distinct looks (colour and marker) of series. Numbers that differ by a multiple of it
/// share the colour, but not the marker: for lines of one thing.
pub const LOOKS: usize = 6;

/// The style sheet. Colours were chosen to differ for colour-blind readers on both grounds;
/// markers and dashes carry the same information.
pub(crate) const CSS: &str = "\
:root{color-scheme:light dark;--ground:#fcfcfb;--ink:#1d1d1b;--soft:#5c5b57;--rule:#dddcd7;\
--panel:#f4f3f0;--c0:#2a78d6;--c1:#c8511b;--c2:#12805a;--c3:#4a3aa7;--c4:#c93a39;--c5:#8a6100}\
@media (prefers-color-scheme:dark){:root{--ground:#1a1a19;--ink:#f0efec;--soft:#b3b1aa;\
--rule:#3a3a37;--panel:#242422;--c0:#5a9eee;--c1:#ee7f4d;--c2:#35bd8d;--c3:#a79df2;--c4:#f08080;\
--c5:#d9a63a}}\
*{box-sizing:border-box}\
body{margin:0;background:var(--ground);color:var(--ink);font:16px/1.5 system-ui,sans-serif}\
main{max-width:60rem;margin:0 auto;padding:1.5rem 1rem 4rem}\
h1{font-size:1.7rem;line-height:1.2;margin:0 0 .5rem}\
h2{font-size:1.25rem;margin:2.5rem 0 .5rem}\
p{margin:.5rem 0;max-width:46rem}\
.soft,figcaption,caption{color:var(--soft)}\
dl{display:grid;grid-template-columns:max-content 1fr;gap:.15rem 1rem;margin:1rem 0;\
font-size:.9rem}dt{color:var(--soft)}dd{margin:0;overflow-wrap:anywhere}\
figure{margin:1rem 0}figcaption{font-size:.9rem;margin-bottom:.25rem}\
svg{display:block;width:100%;height:auto}\
svg text{fill:var(--ink);font:12px system-ui,sans-serif}svg .tick{fill:var(--soft)}\
svg .label{font-size:12.5px}.grid{stroke:var(--rule);stroke-width:1}\
.axis{stroke:var(--soft);stroke-width:1}.lead{stroke:var(--rule);fill:none}\
.line{fill:none;stroke-width:2;stroke-linejoin:round}.spread{opacity:.55}\
.look0{stroke:var(--c0);fill:var(--c0)}.look1{stroke:var(--c1);fill:var(--c1)}\
.look2{stroke:var(--c2);fill:var(--c2)}.look3{stroke:var(--c3);fill:var(--c3)}\
.look4{stroke:var(--c4);fill:var(--c4)}.look5{stroke:var(--c5);fill:var(--c5)}\
svg g>:not(path){stroke:var(--ground);stroke-width:1.2}svg g>text{stroke:none;fill:var(--ink)}\
.tail{opacity:.45}.bar{fill:none;stroke-width:9;opacity:.3}.block{opacity:.6}\
.scroll{overflow-x:auto}.scroll:focus-visible,summary:focus-visible{outline:3px solid var(--c0);\
outline-offset:2px}\
table{border-collapse:collapse;font-size:.9rem;font-variant-numeric:tabular-nums;margin:.5rem 0}\
caption{text-align:left;font-size:.9rem;padding-bottom:.25rem}\
th,td{padding:.2rem .7rem;text-align:left;border-bottom:1px solid var(--rule);\
white-space:nowrap;font-weight:400}thead th{color:var(--soft);vertical-align:bottom}\
a{color:var(--c0)}a:focus-visible{outline:3px solid var(--c0);outline-offset:2px}\
.n{text-align:right}.p{white-space:normal;min-width:12rem}tbody>tr>*{vertical-align:top}\
.scroll th:first-child{position:sticky;left:0;background:var(--ground);z-index:1}\
.scroll tr:target>*{background:var(--panel);border-bottom:2px solid var(--c0)}td a{text-underline-offset:2px}\
th.sort{cursor:pointer}th[aria-sort=ascending]::after{content:\" \\2191\"}\
th[aria-sort=descending]::after{content:\" \\2193\"}th.sort:focus-visible{outline:3px solid var(--c0)}\
.good{color:var(--c2)}.bad{color:var(--c1)}.good,.bad,.both{font-weight:600}\
.wide{max-width:80rem}.wide p{max-width:60rem}.wide h2{margin-top:1.8rem}\
.halves,.panels{display:grid;gap:0 2rem;grid-template-columns:repeat(auto-fill,minmax(min(100%,28rem),1fr))}\
.panels{align-items:end;grid-template-columns:repeat(auto-fill,minmax(min(100%,20rem),1fr))}.halves>*,.panels>*{min-width:0}\
.halves h2{font-size:1.05rem}.panels figure{margin:.4rem 0}figure{overflow-x:auto}\
.part>summary h2{display:inline;font-size:1.05rem}\
code{background:var(--panel);padding:0 .25em;overflow-wrap:anywhere}\
summary{cursor:pointer;padding:.3rem 0}\
pre{background:var(--panel);padding:.7rem .9rem;overflow-x:auto;font-size:.85rem;\
white-space:pre-wrap;overflow-wrap:anywhere;margin:.5rem 0}\
.warn{border-left:4px solid var(--c1);padding:.1rem .9rem;background:var(--panel)}\
@media (max-width:40rem){th,td{padding:.2rem .4rem}.p{min-width:9rem}.p:last-child{min-width:16rem}.scroll th:first-child{white-space:normal;\
max-width:7rem}svg:not(.dots){min-width:34rem}}\
@media print{nav,details:not([open]):not(:has(>dl)){display:none}\
details:has(>dl)::details-content{content-visibility:visible;block-size:auto}.scroll,figure{overflow:visible}\
.halves{grid-template-columns:1fr}.panels{grid-template-columns:1fr 1fr 1fr}details>dl{display:grid}.scroll th:first-child{position:static}\
table{font-size:.7rem}.p,.p:last-child{min-width:0}th,td{white-space:normal;padding:.1rem .3rem}figure,tr{break-inside:avoid}h2{break-after:avoid}}";

/// Script that sorts a table by the column whose heading is chosen, by mouse or keyboard: by number
/// where there are numbers, also those in groups of digits. Cells that are no numbers come last.
pub(crate) const SORT: &str = "\
for(const t of document.querySelectorAll('table')){const b=t.tBodies[0];if(!b||b.rows.length<3)continue;\
const hs=[...t.tHead.rows[0].cells];const num=t=>parseFloat(t.replace(/(\\d),(?=\\d)/g,'$1'));\
hs.forEach((h,i)=>{h.tabIndex=0;h.classList.add('sort');const go=()=>{\
const up=h.getAttribute('aria-sort')!=='ascending';hs.forEach(o=>o.removeAttribute('aria-sort'));\
h.setAttribute('aria-sort',up?'ascending':'descending');const s=r=>r.cells[i]?r.cells[i].textContent:'';\
b.append(...[...b.rows].sort((x,y)=>{const p=s(x),q=s(y),m=num(p),n=num(q);\
if(isNaN(m)!==isNaN(n))return isNaN(m)?1:-1;const d=isNaN(m)?p.localeCompare(q,'en',{numeric:true}):m-n;\
return up?d:-d}))};h.onclick=go;h.onkeydown=e=>{if(e.key==='Enter'||e.key===' '){e.preventDefault();go()}}})}";

/// Script that opens the part into which a link leads: browsers scroll to a row, but not all of
/// them unfold what it is in.
pub(crate) const REVEAL: &str = "\
{const reveal=()=>{const e=document.getElementById(location.hash.slice(1));if(!e)return;\
for(let d=e.parentElement;d;d=d.parentElement)if(d.tagName==='DETAILS')d.open=true;\
e.scrollIntoView({block:'center'})};addEventListener('hashchange',reveal);if(location.hash)reveal()}";

#[cfg(test)]
mod tests {
    use super::*;

    /// The number 1,000 was once sorted as 1.
    #[test]
    fn numbers_in_groups_of_digits_are_read_whole() {
        assert!(SORT.contains(r"parseFloat(t.replace(/(\d),(?=\d)/g,'$1'))"), "{SORT}");
        assert_eq!(SORT.matches("parseFloat").count(), 1);
    }
}
